package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// WebhookTLS starts a receiver over https. CertFile is what its callers have to trust.
func WebhookTLS(t testing.TB) *WebhookReceiver {
	t.Helper()
	return webhookTLS(t, tls.NoClientCert)
}

// WebhookMTLS starts a receiver over https that takes calls only of who shows the
// certificate of ClientCert, whose name is "vobo".
func WebhookMTLS(t testing.TB) *WebhookReceiver {
	t.Helper()
	return webhookTLS(t, tls.RequireAndVerifyClientCert)
}

// CertFile is a PEM file of the authority behind the receiver's certificate; "" without TLS.
func (s *WebhookReceiver) CertFile() string { return s.certFile }

// ClientCert is a certificate and its key, PEM files, that a receiver of WebhookMTLS accepts.
func (s *WebhookReceiver) ClientCert() (certFile, keyFile string) { return s.clientCert, s.clientKey }

func webhookTLS(t testing.TB, clients tls.ClientAuthType) *WebhookReceiver {
	t.Helper()
	dir := t.TempDir()
	ca := newAuthority(t)
	receiver := newReceiver()
	receiver.certFile = filepath.Join(dir, "ca.pem")
	receiver.clientCert, receiver.clientKey = filepath.Join(dir, "client.pem"), filepath.Join(dir, "client-key.pem")
	writePEM(t, receiver.certFile, "CERTIFICATE", ca.cert.Raw)
	own, ownKey := ca.issue(t, "127.0.0.1", 2)
	client, clientKey := ca.issue(t, "vobo", 3)
	writePEM(t, receiver.clientCert, "CERTIFICATE", client)
	der, err := x509.MarshalPKCS8PrivateKey(clientKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, receiver.clientKey, "PRIVATE KEY", der)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	receiver.server.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: clients, ClientCAs: pool,
		Certificates: []tls.Certificate{{Certificate: [][]byte{own}, PrivateKey: ownKey}},
	}
	receiver.server.StartTLS()
	return receiver.startedFor(t)
}

// authority signs certificates for one test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := certificateFor("Vobo test authority", 1)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) issue(t testing.TB, name string, serial int64) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := certificateFor(name, serial)
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	template.DNSNames = []string{"localhost", "receiver.test"}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// certificateFor is good for as long as any test may be run.
func certificateFor(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
