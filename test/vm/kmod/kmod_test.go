// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"testing"
)

func TestOrderPutsWhatIsNeededFirst(t *testing.T) {
	dir := t.TempDir()
	for name, info := range map[string]string{
		"ib_core":   "license=GPL\x00depends=\x00name=ib_core\x00",
		"ib_uverbs": "depends=ib_core\x00",
		"udp":       "name=udp\x00", // no such field
		"rdma_rxe":  "alias=rdma-link-rxe\x00depends=ib_uverbs,udp,ib_core\x00",
	} {
		if err := os.WriteFile(Path(dir, name), module(t, info), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	find := func(name string) (string, error) {
		_, err := os.Stat(Path(dir, name))
		return Path(dir, name), err
	}
	got, err := Order(find, "ib-core", "rdma_rxe", "ib_uverbs")
	if want := []string{"ib_core", "ib_uverbs", "udp", "rdma_rxe"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if _, err := Order(find, "siw"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a module that is not there: %v", err)
	}
}

func TestFileThatIsNoModuleIsAnError(t *testing.T) {
	path := Path(t.TempDir(), "m")
	for _, content := range [][]byte{nil, []byte("text"), bytes.Replace(module(t, "depends=a\x00"), []byte(".modinfo"), []byte(".another"), 1)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Depends(path); err == nil {
			t.Errorf("%q: %v", content, got)
		}
	}
}

// module is an ELF file with nothing but a .modinfo section.
func module(t *testing.T, info string) []byte {
	t.Helper()
	const header, section = 64, 64
	names := "\x00.modinfo\x00.shstrtab\x00"
	at := uint64(header + 3*section)
	var file bytes.Buffer
	for _, part := range []any{
		elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_REL), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
			Shoff: header, Ehsize: header, Shentsize: section, Shnum: 3, Shstrndx: 2,
		},
		elf.Section64{},
		elf.Section64{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: at, Size: uint64(len(info))},
		elf.Section64{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: at + uint64(len(info)), Size: uint64(len(names))},
		[]byte(info), []byte(names),
	} {
		if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return file.Bytes()
}
