// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rdma-relay/rdma-relay/internal/cli"
	"github.com/rdma-relay/rdma-relay/internal/unixsock"
	"github.com/rdma-relay/rdma-relay/internal/version"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/config"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/register"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/relay"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/status"
	"github.com/rdma-relay/rdma-relay/pluginproxy/internal/subscribe"
)

// The defaults that several commands share.
const (
	defaultConfig  = "/etc/rdma-relay/config.json"
	defaultSocket  = "/run/rdma-relay/discovery.sock"
	defaultDir     = "/var/lib/kubelet/device-plugins"
	defaultMetrics = ":9837"
)

// The values of --registration.
const (
	byCall    = "register"
	byWatcher = "watcher"
)

// serveFlags are the flags of pluginproxy serve.
type serveFlags struct {
	config         string
	socket         string
	devicePlugins  string
	registry       string
	registration   string
	metricsAddress string
	webConfig      string
	probeAddress   string
	staleAfter     time.Duration
}

func serveCommand(logFlags *cli.LogFlags) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the configured resources to kubelet",
		Long: `Serve the configured resources to kubelet, until SIGTERM.

Snapshots come from discoveryd through a unix socket. While discoveryd is away
the last snapshot goes on being served.`,
		Example: `  pluginproxy serve --config=/etc/rdma-relay/config.json`,
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := logFlags.Logger(os.Stderr)
			if err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			return serve(cmd.Context(), f, log)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", defaultConfig, "configuration file, JSON or YAML; watched")
	flags.StringVar(&f.socket, "discovery-socket", defaultSocket, "unix socket of discoveryd")
	flags.StringVar(&f.devicePlugins, "device-plugins-dir", defaultDir, "kubelet's device-plugin directory")
	flags.StringVar(&f.registry, "plugins-registry-dir", "/var/lib/kubelet/plugins_registry", "kubelet's plugin registry, for --registration=watcher")
	flags.StringVar(&f.registration, "registration", byCall, "how kubelet learns of the resources: register (we call it) or watcher (it watches its plugin registry)")
	flags.StringVar(&f.metricsAddress, "metrics-address", defaultMetrics, "address of /metrics, /healthz, /readyz and /statusz; empty: none")
	flags.StringVar(&f.webConfig, "web-config-file", "", "protect --metrics-address by TLS and passwords, as this web configuration file of Prometheus' exporter-toolkit says; empty: plain HTTP for everybody")
	flags.StringVar(&f.probeAddress, "probe-address", "", "another address, always plain HTTP: /healthz and /readyz, and /statusz over loopback; empty: none")
	flags.DurationVar(&f.staleAfter, "stale-after", 0, "make all devices unhealthy when discoveryd's last completed scan is older than this; 0: never")
	return cmd
}

// check finds what is wrong with the flags themselves.
func (f *serveFlags) check() error {
	if f.registration != byCall && f.registration != byWatcher {
		return cli.Usagef("--registration=%s: must be %s or %s", f.registration, byCall, byWatcher)
	}
	if f.staleAfter < 0 {
		return cli.Usagef("--stale-after=%v: must not be negative", f.staleAfter)
	}
	flag, dir := "device-plugins-dir", f.devicePlugins
	if f.registration == byWatcher {
		flag, dir = "plugins-registry-dir", f.registry
	}
	if dir == "" || f.socket == "" {
		return cli.Usagef("--%s and --discovery-socket must not be empty", flag)
	}
	if n := len(dir) + 1 + register.MaxNameLen; n > unixsock.MaxPath {
		return cli.Usagef("--%s=%s: too long by %d bytes: a socket's path there could not be bound (unix(7) allows %d bytes)",
			flag, dir, n-unixsock.MaxPath, unixsock.MaxPath)
	}
	if err := checkSocket(f.socket); err != nil {
		return err
	}
	return f.checkHTTP()
}

// checkHTTP finds what is wrong with the flags of the HTTP server.
func (f *serveFlags) checkHTTP() error {
	for _, one := range []struct{ flag, address string }{{"metrics-address", f.metricsAddress}, {"probe-address", f.probeAddress}} {
		if one.address == "" {
			continue
		}
		_, port, err := net.SplitHostPort(one.address)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return cli.Usagef("--%s=%s: must be HOST:PORT or :PORT, or empty for none", one.flag, one.address)
		}
	}
	if f.webConfig == "" {
		return nil
	}
	if f.metricsAddress == "" {
		return cli.Usagef("--web-config-file=%s protects --metrics-address, which is empty", f.webConfig)
	}
	if err := status.CheckWebConfig(f.webConfig); err != nil {
		return cli.Usagef("--web-config-file=%s: %w", f.webConfig, err)
	}
	return nil
}

// kubelet is where kubelet is met.
func (f *serveFlags) kubelet(log *slog.Logger) *register.Dir {
	if f.registration == byWatcher {
		return register.NewRegistry(filepath.Clean(f.registry), 0, log)
	}
	return register.NewDir(filepath.Clean(f.devicePlugins), 0, log)
}

// checkSocket refuses a path that nobody can connect to.
func checkSocket(path string) error {
	if n := len(path); n > unixsock.MaxPath {
		return cli.Usagef("--discovery-socket=%s: too long by %d bytes (unix(7) allows %d bytes)", path, n-unixsock.MaxPath, unixsock.MaxPath)
	}
	return nil
}

// serve runs the parts until ctx ends. Each part is one goroutine of the group;
// the group waits for all of them.
func serve(ctx context.Context, f serveFlags, log *slog.Logger) error {
	if os.Getenv("GOGC") == "" {
		// The live heap is a few MiB, so collecting twice as often costs next to
		// nothing and keeps a tenth of the memory (make bench, BenchmarkMemory).
		debug.SetGCPercent(50)
	}
	log.Info("pluginproxy starts", "version", version.String())
	cfg, err := config.Watch(f.config, 0, log)
	if err != nil {
		return cli.Usage(err)
	}
	dir := f.kubelet(log)
	discovery := subscribe.New(f.socket, log)

	metrics := prometheus.NewRegistry()
	observe, err := status.AllocationSeconds(metrics)
	if err != nil {
		return err
	}
	middle := relay.New(
		relay.Sources{Config: cfg, Discovery: discovery, Kubelet: dir},
		relay.Options{NodeName: nodeName(), StaleAfter: f.staleAfter, ObserveAllocation: observe}, log)
	if err := status.Register(metrics, middle); err != nil {
		return err
	}

	group, ctx := errgroup.WithContext(ctx)
	run := func(part func(context.Context)) {
		group.Go(func() error { part(ctx); return nil })
	}
	run(cfg.Run)
	run(dir.Run)
	run(middle.Run)
	run(discovery.Run)
	handler := status.Handler(middle, metrics, log)
	if f.metricsAddress != "" {
		run(func(ctx context.Context) { status.Serve(ctx, f.metricsAddress, f.webConfig, handler, log) })
	}
	if f.probeAddress != "" {
		run(func(ctx context.Context) { status.Serve(ctx, f.probeAddress, "", status.Probes(handler), log) })
	}
	err = group.Wait()
	log.Info("pluginproxy ends")
	return err
}

// nodeName is what the status page calls the node: the name that the pod was given
// or, without, the host's, which in a pod is the pod's.
func nodeName() string {
	if name := os.Getenv("NODE_NAME"); name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
