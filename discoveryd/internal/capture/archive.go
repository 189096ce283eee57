// The archive: tar and gzip, with nothing in it of when, where and by whom it was
// made, so that equal recordings are equal files.
//
// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"time"
)

// Write writes the recording as a gzipped tar archive: plain files, directories and
// relative links that stay inside, sorted by path.
func (r *Recording) Write(w io.Writer) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, m := range r.members {
		if err := archive.WriteHeader(m.header()); err != nil {
			return err
		}
		if m.kind == aFile {
			if _, err := io.WriteString(archive, m.text); err != nil {
				return err
			}
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zipped.Close()
}

func (m member) header() *tar.Header {
	h := &tar.Header{Name: m.path, Mode: 0o644, ModTime: time.Unix(0, 0)}
	switch m.kind {
	case aDir:
		h.Typeflag, h.Name, h.Mode = tar.TypeDir, m.path+"/", 0o755
	case aLink:
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, m.text, 0o777
	default:
		h.Typeflag, h.Size = tar.TypeReg, int64(len(m.text))
	}
	return h
}
