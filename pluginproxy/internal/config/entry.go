// The rules of the file's own keys, from the root to one entry of configList.
//
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"time"
)

const (
	keyConfigList     = "configList"
	keyUpdateInterval = "periodicUpdateInterval"
	keyName           = "resourceName"
	keyPrefix         = "resourcePrefix"
	keyMax            = "rdmaHcaMax"
	keyDevices        = "devices"
	keySelectors      = "selectors"
	keyExclude        = "exclude"
	keySharing        = "sharing"
	keyHealth         = "health"
	keyRecoverAfter   = "recoverAfter"
	keyCharDevices    = "charDevices"
	keyPermissions    = "permissions"
	keyTopologyHints  = "topologyHints"
	keyPreference     = "preferredAllocation"
	keyCDI            = "cdi"

	defaultPrefix      = "rdma"
	defaultPermissions = "rw"

	// maxResources bounds the gRPC servers that one process runs.
	maxResources = 256
	// maxEntries bounds each list of a resource.
	maxEntries = 4096
	// maxUpdateInterval is a year of seconds.
	maxUpdateInterval = 365 * 24 * 60 * 60
	maxRecoverAfter   = 24 * time.Hour
)

var (
	rootKeys     = []string{keyUpdateInterval, keyConfigList}
	resourceKeys = []string{
		keyName, keyPrefix, keyMax, keyDevices, keySelectors, keyExclude, keySharing, keyHealth, keyRecoverAfter,
		keyCharDevices, keyPermissions, keyTopologyHints, keyPreference, keyCDI,
	}
)

// config decodes the root.
func (d *decoder) config(root value) *Config {
	cfg := &Config{}
	switch {
	case root.kind == null:
		d.fail("", "%s", emptySentence)
		return cfg
	case root.kind != object:
		d.fail("", `is %v; it must be an object with %q`, root.kind, keyConfigList)
		return cfg
	case len(root.members) == 0:
		d.fail("", `is an empty object; it must hold %q with at least one resource`, keyConfigList)
		return cfg
	}
	f, _ := d.fields(root, "", rootKeys)
	if _, ok := f.integer(keyUpdateInterval, 0, maxUpdateInterval); ok {
		d.warn(keyUpdateInterval, "has no effect: updates are driven by events")
	}
	if _, ok := f.values[keyConfigList]; !ok {
		d.fail(keyConfigList, "is missing; it must list at least one resource")
		return cfg
	}
	entries, ok := f.get(keyConfigList, list)
	switch {
	case !ok:
	case len(entries.items) == 0:
		d.fail(keyConfigList, "is empty; it must list at least one resource")
	case len(entries.items) > maxResources:
		d.fail(keyConfigList, "lists %d resources; at most %d are allowed", len(entries.items), maxResources)
	default:
		cfg.Resources = d.resources(entries.items)
	}
	return cfg
}

// resources decodes the entries and compares their names.
func (d *decoder) resources(entries []value) []Resource {
	resources := make([]Resource, 0, len(entries))
	names := make(map[string]int, len(entries))
	variables := make(map[string]int, len(entries))
	for i, entry := range entries {
		path := fmt.Sprintf("%s[%d]", keyConfigList, i)
		r, named := d.resource(entry, path)
		resources = append(resources, r)
		if !named {
			continue
		}
		if first, doubled := names[r.Name()]; doubled {
			d.fail(path+"."+keyName, "%s is also the name of %s[%d]; each resource needs its own", r.Name(), keyConfigList, first)
			continue
		}
		names[r.Name()] = i
		if first, doubled := variables[r.EnvSuffix()]; doubled {
			d.warn(path+"."+keyName, "%s and %s share the environment variable PCIDEVICE_%s; a container that asks for both sees one of them",
				r.Name(), resources[first].Name(), r.EnvSuffix())
			continue
		}
		variables[r.EnvSuffix()] = i
	}
	d.leftNothing(resources)
	return resources
}

// resource decodes one entry; named tells whether its name is legal.
func (d *decoder) resource(entry value, path string) (r Resource, named bool) {
	f, ok := d.fields(entry, path, resourceKeys)
	if !ok {
		return r, false
	}
	named = f.name(&r)
	r.Sharing = Sharing(f.word(keySharing, string(SharingPool), string(SharingPool), string(SharingPerDevice), string(SharingExclusive)))
	r.Health = f.health(r.Sharing)
	r.RecoverAfter = Duration(f.duration(keyRecoverAfter, maxRecoverAfter))
	r.TopologyHints = f.flag(keyTopologyHints, true)
	r.Preference = Preference(f.word(keyPreference, string(PreferSpread), string(PreferSpread), string(PreferPack)))
	if _, set := f.values[keyPreference]; set && r.Sharing == SharingPool {
		d.warn(f.join(keyPreference), "has no effect with %s: pool, whose slots are all alike", keySharing)
	}
	f.containerFiles(&r)
	f.max(&r)
	f.devices(&r)
	return r, named
}

// health gives the policy; a pool keeps the replaced plugin's meaning.
func (f *fields) health(sharing Sharing) Health {
	otherwise := HealthActive
	if sharing == SharingPool {
		otherwise = HealthPresent
	}
	return Health(f.word(keyHealth, string(otherwise), string(HealthActive), string(HealthPresent)))
}

// containerFiles decodes what a container gets. With cdi the daemon's CDI
// specification decides, so the two other keys would promise what nobody does.
func (f *fields) containerFiles(r *Resource) {
	r.CDI = f.flag(keyCDI, false)
	r.CharDevices = []CharDevice{Uverbs, RDMACM, Umad, Issm}
	r.Permissions = defaultPermissions
	if _, set := f.values[keyCharDevices]; set {
		r.CharDevices = f.charDevices()
	}
	if _, set := f.values[keyPermissions]; set {
		r.Permissions = f.permissions()
	}
	for _, key := range []string{keyCharDevices, keyPermissions} {
		if _, set := f.values[key]; set && r.CDI {
			f.d.fail(f.join(key), "can't stand beside %s: true, which gives every file of a device with rw; remove one of them", keyCDI)
		}
	}
}

// charDevices gives the listed kinds in their fixed order.
func (f *fields) charDevices() []CharDevice {
	all := []CharDevice{Uverbs, RDMACM, Umad, Issm}
	names := make([]string, len(all))
	for i, kind := range all {
		names[i] = string(kind)
	}
	asked := map[CharDevice]bool{}
	items := f.items(keyCharDevices)
	if v := f.values[keyCharDevices]; v.kind == list && len(v.items) == 0 {
		f.d.fail(f.join(keyCharDevices), "is empty; a container would get nothing")
	}
	for i, item := range items {
		path := fmt.Sprintf("%s[%d]", f.join(keyCharDevices), i)
		if item.kind != text {
			f.d.fail(path, "is %v, not text", item.kind)
			continue
		}
		asked[CharDevice(f.d.word(item.text, path, "", names))] = true
	}
	var kinds []CharDevice
	for _, kind := range all {
		if asked[kind] {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// permissions gives the letters in the order r, w, m.
func (f *fields) permissions() string {
	v, ok := f.get(keyPermissions, text)
	if !ok {
		return defaultPermissions
	}
	var ordered strings.Builder
	for _, letter := range "rwm" {
		if strings.Count(v.text, string(letter)) == 1 {
			ordered.WriteRune(letter)
		}
	}
	if ordered.Len() == 0 || ordered.Len() != len(v.text) {
		f.d.fail(f.join(keyPermissions), `%s is unknown; write some of r, w and m, such as "rw"`, quote(v.text))
	}
	return ordered.String()
}

// max decodes rdmaHcaMax and checks that the list fits into one message.
func (f *fields) max(r *Resource) {
	_, set := f.values[keyMax]
	if r.Sharing == SharingExclusive {
		r.Max = 1
		if n, ok := f.integer(keyMax, 0, maxInt32); ok && n != 1 {
			f.d.fail(f.join(keyMax), "is %d; with %s: exclusive a device has one slot: remove the key", n, keySharing)
		}
		return
	}
	if !set {
		f.d.fail(f.join(keyMax), "is missing; it is the number of containers that may share the devices, such as 63")
		return
	}
	n, ok := f.integer(keyMax, 0, maxInt32)
	if !ok {
		return
	}
	r.Max = int(n)
	if n == 0 {
		f.d.warn(f.join(keyMax), "is 0: the resource is switched off")
	}
	if size := listBytes(r); size > MaxListBytes {
		f.d.fail(f.join(keyMax), "is %d: the list would be %d bytes and kubelet reads at most %d; at most %d slots fit",
			n, size, int64(MaxListBytes), mostSlots(r))
	}
}

// devices decodes selectors, the deprecated devices, and exclude.
func (f *fields) devices(r *Resource) {
	names := f.interfaceNames(keyDevices)
	if v, ok := f.get(keySelectors, object); ok {
		r.Selectors = f.d.selectors(v, f.join(keySelectors))
	}
	if v, ok := f.get(keyExclude, object); ok {
		r.Exclude = f.d.selectors(v, f.join(keyExclude))
	}
	selectors, set := f.values[keySelectors]
	wrong := set && selectors.kind != object // told already
	listed := len(f.values[keyDevices].items) > 0
	asked := anyEntries(selectors)
	switch {
	case listed && asked:
		f.d.fail(f.join(keyDevices), "can't stand beside %s; move its names to %s.ifNames", keySelectors, keySelectors)
	case listed:
		r.Selectors.IfNames = names
		f.d.warn(f.join(keyDevices), "is deprecated; write it as %s.ifNames", keySelectors)
	case !asked && !wrong:
		f.d.fail(f.join(keySelectors), "is missing or empty and would match every device; name at least one vendor, interface or other selector")
	}
	f.excludesAll(r)
}

// anyEntries tells whether any selector of the object has something in it.
func anyEntries(selectors value) bool {
	for _, m := range selectors.members {
		if m.value.kind != list || len(m.value.items) > 0 {
			return true
		}
	}
	return false
}
