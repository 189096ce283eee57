// The status page: one HTML document without script and without anything fetched.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"crypto/sha256"
	_ "embed" // the page's text and style
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

// page is the document. It is safe for concurrent use.
type page struct {
	document func() *template.Template // parsed when somebody looks, which few nodes see
	policy   string                    // Content-Security-Policy
}

// newPage makes the page. Nothing but the style sheet inside the document may
// have an effect, whatever text of the host might slip through.
func newPage() *page {
	hash := sha256.Sum256([]byte(pageStyle))
	return &page{
		document: sync.OnceValue(func() *template.Template {
			return template.Must(template.New("page").Parse(pageText))
		}),
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	}
}

func (p *page) write(w io.Writer, v *view) error { return p.document().Execute(w, v) }

// view is what the document shows.
type view struct {
	Style       template.CSS
	Report      *relay.Report
	Title, Mark string
	Verdict     string
	At          time.Time
	Facts       []fact
	Resources   []resourceView
	Devices     []deviceView
	MoreDevices int
	Changes     []changeView
}

type fact struct{ Name, Value, Mark string }

type resourceView struct {
	*relay.ResourceReport
	Mark, SessionWord, For string
	HCAViews               []hcaView
	Groups                 []group
	MoreGroups             int
	OtherHints             []string
}

type hcaView struct{ Name, Address, Mark, Health, Also string }

type deviceView struct {
	relay.DeviceReport
	NUMA  string
	Ports []portView
}

type portView struct {
	relay.PortReport
	Mark, Word string
}

type changeView struct {
	relay.Change
	Ago string
}

// newView puts a report into words; now is the time of the request.
func newView(rep *relay.Report, now time.Time) *view {
	v := &view{Style: template.CSS(pageStyle), Report: rep, At: now, Facts: facts(rep, now)} // #nosec G203 -- a constant of this package
	healthy := true
	down := portsDown(rep.Devices)
	for i := range rep.Resources {
		r := viewResource(&rep.Resources[i], down, now)
		healthy = healthy && r.Mark == good
		v.Resources = append(v.Resources, r)
	}
	switch {
	case !rep.Ready:
		v.Mark, v.Verdict = bad, "Not ready"
	case !healthy || len(rep.Problems) > 0:
		v.Mark, v.Verdict = warn, "Ready, but look below"
	default:
		v.Mark, v.Verdict = good, "Ready"
	}
	v.Title = "rdma-relay"
	if rep.Node.Name != "" {
		v.Title = rep.Node.Name + " · rdma-relay"
	}
	v.MoreDevices = max(0, len(rep.Devices)-maxDevices)
	for _, d := range rep.Devices[:len(rep.Devices)-v.MoreDevices] {
		v.Devices = append(v.Devices, viewDevice(d))
	}
	for _, c := range rep.Changes {
		v.Changes = append(v.Changes, changeView{c, since(now, c.At)})
	}
	return v
}

// facts are the node, its daemon and its kubelet in a few words.
func facts(rep *relay.Report, now time.Time) []fact {
	d, k := &rep.Discovery, &rep.Kubelet
	stream := fact{"discoveryd", "connected", good}
	if !d.Connected {
		stream.Value, stream.Mark = "not connected", bad
	}
	if d.DaemonVersion != "" {
		stream.Value += ", version " + d.DaemonVersion
	}
	list := []fact{stream}
	if d.Generation > 0 {
		scan := fact{Name: "last scan", Value: fmt.Sprintf("%s ago, generation %d", ago(seconds(d.AgeSeconds)), d.Generation)}
		if d.Stale {
			scan.Value, scan.Mark = scan.Value+" (stale)", bad
		}
		list = append(list, scan)
	}
	kubelet := fact{"kubelet", "kubelet.sock is there", good}
	switch {
	case !k.Present && k.Watched:
		kubelet.Value, kubelet.Mark = "no "+k.Dir, bad
	case !k.Present:
		kubelet.Value, kubelet.Mark = "no kubelet.sock in "+k.Dir, bad
	case k.Watched:
		kubelet.Value = "is to watch " + k.Dir
	}
	config := fact{Name: "configuration", Value: "hash " + rep.Config.Hash}
	if !rep.Config.LoadedAt.IsZero() {
		config.Value += ", loaded " + since(now, rep.Config.LoadedAt) + " ago"
	}
	if rep.Config.Problem != "" {
		config.Value, config.Mark = config.Value+"; the file of now is refused", bad
	}
	list = append(list, kubelet, config, fact{Name: "RDMA devices", Value: fmt.Sprint(d.Devices)})
	netns := fact{Name: "netns mode", Value: d.NetnsMode}
	if d.NetnsMode == "exclusive" {
		netns.Mark = bad
	}
	list = append(list, netns)
	if rep.Node.KernelRelease != "" {
		list = append(list, fact{Name: "kernel", Value: rep.Node.KernelRelease})
	}
	if modules := moduleWords(rep); modules != "" {
		list = append(list, fact{Name: "modules", Value: modules})
	}
	return append(list, fact{Name: "pluginproxy", Value: "version " + rep.Version})
}

// moduleWords are the kernel modules, with those that do not answer marked.
func moduleWords(rep *relay.Report) string {
	words := make([]string, len(rep.Node.Modules))
	for i, m := range rep.Node.Modules {
		words[i] = m.Name
		if !m.Present {
			words[i] += " (does not answer)"
		}
	}
	return strings.Join(words, ", ")
}

func viewResource(r *relay.ResourceReport, down map[string]string, now time.Time) resourceView {
	v := resourceView{ResourceReport: r, SessionWord: session(r), For: since(now, r.Since), OtherHints: hints(r)}
	switch {
	case !r.Session || r.Healthy == 0:
		v.Mark = bad
	case r.Why != "" || r.HealthyHCAs < len(r.HCAs):
		v.Mark = warn
	default:
		v.Mark = good
	}
	also := sharedWith(r.Name, r.Shared)
	for _, h := range r.HCAs {
		view := hcaView{Name: h.Name, Address: h.PCIAddress, Mark: good, Health: "healthy", Also: also[h.Name]}
		switch {
		case !h.Healthy:
			view.Mark, view.Health = bad, "unhealthy: "+h.Reason
		case h.Reason != "":
			view.Mark, view.Health = warn, "healthy; "+h.Reason
		case down[h.Name] != "":
			view.Mark, view.Health = warn, "healthy; "+down[h.Name]
		}
		v.HCAViews = append(v.HCAViews, view)
	}
	v.Groups, v.MoreGroups = groups(r.LeftOut)
	return v
}

func viewDevice(d relay.DeviceReport) deviceView {
	v := deviceView{DeviceReport: d}
	if d.NUMANode != nil {
		v.NUMA = fmt.Sprint(*d.NUMANode)
	}
	for _, p := range d.Ports {
		view := portView{PortReport: p, Mark: good, Word: portWord(&p)}
		if !portUp(&p) {
			view.Mark = bad
		}
		v.Ports = append(v.Ports, view)
	}
	return v
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
