// Package show prints a snapshot for people and for programs.
//
// SPDX-License-Identifier: Apache-2.0
package show

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	discoveryv1 "github.com/rdma-relay/rdma-relay/proto/discovery/v1"
)

// Format returns the printer for a format: table, wide, json or yaml.
func Format(name string) (func(io.Writer, *discoveryv1.Snapshot) error, error) {
	switch name {
	case "table":
		return printTable, nil
	case "wide":
		return printWide, nil
	case "json":
		return printJSON, nil
	case "yaml":
		return printYAML, nil
	}
	return nil, errors.New("must be table, wide, json or yaml")
}

// toJSON is the message Snapshot with the names of the .proto file. Empty lists and
// zero values are there, absent optional fields are not.
func toJSON(s *discoveryv1.Snapshot) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(s)
	if err != nil {
		return nil, err
	}
	// protojson varies its spaces on purpose; equal snapshots shall print alike.
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func printJSON(w io.Writer, s *discoveryv1.Snapshot) error {
	out, err := toJSON(s)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

func printYAML(w io.Writer, s *discoveryv1.Snapshot) error {
	out, err := toJSON(s)
	if err != nil {
		return err
	}
	if out, err = yaml.JSONToYAML(out); err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}
