// The metrics port behind TLS and passwords, and the probes beside it.
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// users has the password "secret" by a cheap hash.
const (
	users      = "basic_auth_users:\n  prometheus: $2a$04$ahL/xj3Tr0m3eX0RLVQi9uqal6vfabAH1mDqH2mdIds0QZgmaWwHK\n"
	otherUsers = "basic_auth_users:\n  somebody: $2a$04$ahL/xj3Tr0m3eX0RLVQi9uqal6vfabAH1mDqH2mdIds0QZgmaWwHK\n"
	withTLS    = "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n"
)

func TestMetricsBehindTLSAndPassword(t *testing.T) {
	dir := t.TempDir()
	serial(1).write(t, dir)
	write(t, dir, "web.yml", withTLS+users)
	address, _ := serveProtected(t, dir)
	for name, test := range map[string]struct {
		url, user, password string
		want                int
	}{
		"right":           {"https://" + address + "/metrics", "prometheus", "secret", http.StatusOK},
		"no password":     {"https://" + address + "/metrics", "", "", http.StatusUnauthorized},
		"wrong password":  {"https://" + address + "/metrics", "prometheus", "guess", http.StatusUnauthorized},
		"wrong user":      {"https://" + address + "/metrics", "somebody", "secret", http.StatusUnauthorized},
		"no TLS":          {"http://" + address + "/metrics", "prometheus", "secret", http.StatusBadRequest},
		"probes have one": {"https://" + address + "/healthz", "", "", http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := fetchWith(t, test.url, test.user, test.password); got != test.want {
				t.Errorf("answers %d, want %d", got, test.want)
			}
		})
	}
}

// A Secret changes as kubelet changes it: all files at once, by one link.
func TestCertificateAndPasswordsAreReadAnew(t *testing.T) {
	dir := t.TempDir()
	swap := func(version string, number serial, config string) {
		t.Helper()
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		number.write(t, filepath.Join(dir, version))
		write(t, filepath.Join(dir, version), "web.yml", config)
		must(t, os.Symlink(version, filepath.Join(dir, "next")))
		must(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "..data")))
	}
	swap("..1", 1, withTLS+users)
	for _, name := range []string{"web.yml", "tls.crt", "tls.key"} {
		must(t, os.Symlink("..data/"+name, filepath.Join(dir, name)))
	}
	address, logs := serveProtected(t, dir)
	url := "https://" + address + "/metrics"
	if code, number := fetchWith(t, url, "prometheus", "secret"); code != http.StatusOK || number != 1 {
		t.Fatalf("%d with certificate %d\n%s", code, number, logs)
	}
	swap("..2", 2, withTLS+otherUsers)
	if code, number := fetchWith(t, url, "somebody", "secret"); code != http.StatusOK || number != 2 {
		t.Errorf("the new user: %d with certificate %d", code, number)
	}
	if code, _ := fetchWith(t, url, "prometheus", "secret"); code != http.StatusUnauthorized {
		t.Errorf("the old user: %d", code)
	}
	swap("..3", 3, "nonsense: true\n")
	if code, _ := fetchWith(t, url, "somebody", "secret"); code != 0 {
		t.Errorf("with a bad file it answers %d", code)
	}
	if code, _ := fetchWith(t, url, "somebody", "secret"); code != 0 || logs.count("nobody gets metrics") != 1 || !strings.Contains(logs.String(), "field nonsense not found") {
		t.Errorf("again it answers %d and says:\n%s", code, logs)
	}
	swap("..4", 4, withTLS+users)
	if code, number := fetchWith(t, url, "prometheus", "secret"); code != http.StatusOK || number != 4 {
		t.Errorf("mended: %d with certificate %d", code, number)
	}
	if logs.count("good again") != 1 {
		t.Errorf("log:\n%s", logs)
	}
}

// The file went bad between the start and an address that was taken.
func TestBadWebConfigIsTriedAgain(t *testing.T) {
	dir, logs, address := t.TempDir(), &logBuffer{}, freeAddress(t)
	log := slog.New(slog.NewTextHandler(logs, nil))
	run(t, func(ctx context.Context) {
		serve(ctx, address, filepath.Join(dir, "web.yml"), http.NotFoundHandler(), 5*time.Millisecond, log)
	})
	until(t, "the complaint", func() bool { return strings.Contains(logs.String(), "web.yml: no such file") })
	serial(1).write(t, dir)
	write(t, dir, "web.yml", withTLS)
	until(t, "an answer", func() bool {
		code, _ := fetchWith(t, "https://"+address+"/x", "", "")
		return code == http.StatusNotFound
	})
}

func TestCheckWebConfigSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	serial(1).write(t, dir)
	for name, test := range map[string]struct{ text, want string }{
		"good":         {withTLS + users, ""},
		"users only":   {users, ""},
		"unknown key":  {"tls_config: {}\n", "field tls_config not found"},
		"no such file": {strings.ReplaceAll(withTLS, "tls.key", "other.key"), "other.key: no such file"},
		"no key":       {"tls_server_config:\n  cert_file: tls.crt\n", "missing one of key"},
		"plain text":   {"basic_auth_users:\n  a: secret\n", "hashedSecret too short"},
	} {
		write(t, dir, "web.yml", test.text)
		err := CheckWebConfig(filepath.Join(dir, "web.yml"))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestProbesTellLittle(t *testing.T) {
	from := sample()
	all := Handler(from, register(t, from), slog.New(slog.DiscardHandler))
	for _, test := range []struct {
		path, local, remote string
		want                int
	}{
		{"/healthz", "10.0.0.7:9838", "10.0.0.1:40000", http.StatusOK},
		{"/readyz", "10.0.0.7:9838", "10.0.0.1:40000", http.StatusServiceUnavailable},
		{"/metrics", "127.0.0.1:9838", "127.0.0.1:40000", http.StatusForbidden},
		{"/", "127.0.0.1:9838", "127.0.0.1:40000", http.StatusForbidden},
		{"/statusz", "127.0.0.1:9838", "127.0.0.1:40000", http.StatusOK},
		{"/statusz", "[::1]:9838", "[::1]:40000", http.StatusOK},
		{"/statusz", "10.0.0.7:9838", "10.0.0.1:40000", http.StatusForbidden},
		{"/statusz", "10.0.0.7:9838", "127.0.0.1:40000", http.StatusForbidden},
		{"/statusz", "127.0.0.1:9838", "10.0.0.1:40000", http.StatusForbidden},
		{"/statusz", "", "127.0.0.1:40000", http.StatusForbidden},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, nil)
		r.RemoteAddr = test.remote
		if test.local != "" {
			local, err := net.ResolveTCPAddr("tcp", test.local)
			must(t, err)
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
		}
		rec := httptest.NewRecorder()
		Probes(all).ServeHTTP(rec, r)
		if rec.Code != test.want {
			t.Errorf("%+v: %d %.80q", test, rec.Code, rec.Body)
		}
	}
}

// serveProtected serves the sample with the web.yml of a directory.
func serveProtected(t *testing.T, dir string) (address string, logs *logBuffer) {
	t.Helper()
	address, logs = freeAddress(t), &logBuffer{}
	from := sample()
	log := slog.New(slog.NewTextHandler(logs, nil))
	all := Handler(from, register(t, from), log)
	run(t, func(ctx context.Context) { Serve(ctx, address, filepath.Join(dir, "web.yml"), all, log) })
	until(t, "the server", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return address, logs
}

// fetchWith asks once, on a connection of its own, whatever the certificate. It returns the
// status code, 0 without an answer, and the certificate's number.
func fetchWith(t *testing.T, url, user, password string) (code int, number serial) {
	t.Helper()
	client := http.Client{Timeout: within, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.TLS != nil {
		number = serial(resp.TLS.PeerCertificates[0].SerialNumber.Int64())
	}
	return resp.StatusCode, number
}

// serial is the number of a certificate.
type serial int64

// write makes the certificate, for 127.0.0.1, as tls.crt and tls.key.
func (s serial) write(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(int64(s)), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	write(t, dir, "tls.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, dir, "tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}
