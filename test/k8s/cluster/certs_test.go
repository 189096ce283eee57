// A certificate authority for one run, what it signs, and kubeconfigs.
//
// SPDX-License-Identifier: Apache-2.0

//go:build cluster

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// authority signs certificates into its directory.
type authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	next int64 // serial number
}

// identity is whom a certificate is for (x509 client certificates: the common name is
// the user, organisations are groups).
type identity struct {
	user   string
	groups []string
	names  []string // DNS names and addresses of a server
}

func newAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	a := &authority{dir: dir, next: 1}
	template := a.template(identity{user: "cluster-ca"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	var err error
	if a.key, err = a.newKey("ca"); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return a, a.write("ca.crt", "CERTIFICATE", der)
}

func (a *authority) template(id identity) *x509.Certificate {
	a.next++
	t := &x509.Certificate{
		SerialNumber: big.NewInt(a.next),
		Subject:      pkix.Name{CommonName: id.user, Organization: id.groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, name := range id.names {
		if ip := net.ParseIP(name); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, name)
		}
	}
	return t
}

// sign makes NAME.key and NAME.crt.
func (a *authority) sign(name string, id identity) error {
	key, err := a.newKey(name)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, a.template(id), a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return a.write(name+".crt", "CERTIFICATE", der)
}

// newKey makes NAME.key and, for those that are used without a certificate, NAME.pub.
func (a *authority) newKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	return key, errors.Join(a.write(name+".key", "PRIVATE KEY", private), a.write(name+".pub", "PUBLIC KEY", public))
}

func (a *authority) write(name, kind string, der []byte) error {
	return os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// kubeconfig makes NAME.kubeconfig for a user that may ask the API server.
func (a *authority) kubeconfig(name string, id identity) error {
	if err := a.sign(name, id); err != nil {
		return err
	}
	config := api.NewConfig()
	config.Clusters["c"] = &api.Cluster{Server: apiURL, CertificateAuthority: a.path("ca.crt")}
	config.AuthInfos["u"] = &api.AuthInfo{ClientCertificate: a.path(name + ".crt"), ClientKey: a.path(name + ".key")}
	config.Contexts["c"] = &api.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	return clientcmd.WriteToFile(*config, a.path(name+".kubeconfig"))
}
