// An image of one static program, written without an image builder.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
)

// Images by name. Nothing is pulled.
const (
	pauseImage    = "cluster.local/pause:1"
	podImage      = "cluster.local/pod:1"
	imageRegistry = "cluster.local/rdma-relay"
)

// writeImage writes an archive in the OCI image layout (image-spec, image-layout.md)
// whose only file is the program, /pod.
func writeImage(path, program string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := tarOf(file{"pod", 0o755, text})
	if err != nil {
		return err
	}
	layout := []file{{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}}
	add := func(kind string, blob []byte) map[string]any {
		digest := fmt.Sprintf("%x", sha256.Sum256(blob))
		layout = append(layout, file{"blobs/sha256/" + digest, 0o644, blob})
		return map[string]any{"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": len(blob)}
	}
	var errs []error
	encode := func(v any) []byte {
		text, err := json.Marshal(v)
		errs = append(errs, err)
		return text
	}
	layerRef := add("layer.v1.tar", layer)
	config := add("config.v1+json", encode(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/pod"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{layerRef["digest"]}},
	}))
	manifest := add("manifest.v1+json", encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []any{layerRef},
	}))
	layout = append(layout, file{"index.json", 0o644, encode(map[string]any{"schemaVersion": 2, "manifests": []any{manifest}})})
	archive, err := tarOf(layout...)
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	return os.WriteFile(path, archive, 0o644)
}

type file struct {
	name string
	mode int64
	text []byte
}

func tarOf(files ...file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
