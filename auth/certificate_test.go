package auth_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/stretchr/testify/require"
	"software.sslmate.com/src/go-pkcs12"
)

// material is a certificate with its key.
type material struct {
	key         any
	certificate *x509.Certificate
}

func (m material) pem(t *testing.T) (key, certificate []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(m.key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.certificate.Raw})
}

func read(t *testing.T, o auth.Options) material {
	t.Helper()
	data, err := os.ReadFile(o.ServicePrincipal.CertificatePath)
	require.NoError(t, err)
	key, certificate, err := pkcs12.Decode(data, o.ServicePrincipal.CertificatePassword)
	require.NoError(t, err)
	return material{key, certificate}
}

// A certificate in each common format gets a token, including PKCS#12 files that azidentity can't
// read.
func TestCertificateFormats(t *testing.T) {
	clearEnvironment(t)
	server := authtest.Start(t)
	options := server.Certificate()
	own := read(t, options)
	key, certificate := own.pem(t)
	rsaKey := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(own.key.(*rsa.PrivateKey))})
	encoded := func(encoder *pkcs12.Encoder, password string, above ...*x509.Certificate) []byte {
		data, err := encoder.Encode(own.key, own.certificate, above, password)
		require.NoError(t, err)
		return data
	}
	for _, c := range []struct {
		name, password string
		data           []byte
	}{
		{"PKCS#12 of OpenSSL 3", "pass word", encoded(pkcs12.Modern2023, "pass word")},
		{"PKCS#12 of OpenSSL 1", "pass word", encoded(pkcs12.LegacyDES, "pass word")},
		{"PKCS#12 of OpenSSL 1, RC2", "pass word", encoded(pkcs12.LegacyRC2, "pass word")},
		{"PKCS#12 without a password", "", encoded(pkcs12.Modern2023, "")},
		{"PKCS#12 with an authority", "p", encoded(pkcs12.Modern2023, "p", other(t).certificate)},
		{"PEM", "", slices.Concat(key, certificate)},
		{"PEM, the key last", "", slices.Concat(certificate, key)},
		{"PEM with a key of RSA's own", "", slices.Concat(certificate, rsaKey)},
		{"PEM with text around", "", slices.Concat([]byte("Bag Attributes\n"), certificate, []byte("\n"), key)},
	} {
		for _, sendChain := range []bool{false, true} {
			o := options
			o.ServicePrincipal.CertificatePath, o.ServicePrincipal.CertificatePassword = save(t, c.data), c.password
			o.ServicePrincipal.SendCertificateChain = sendChain
			credential, err := auth.New(o)
			require.NoError(t, err, c.name)
			_, err = credential.GetToken(t.Context(), request())
			require.NoError(t, err, c.name)
		}
	}
}

// A request contains the certificate chain if SendCertificateChain is set.
func TestSendCertificateChain(t *testing.T) {
	clearEnvironment(t)
	for _, send := range []bool{false, true} {
		server := authtest.Start(t)
		options := server.Certificate()
		options.ServicePrincipal.SendCertificateChain = send
		inner, sent := options.Client.Transport, ""
		options.Client.Transport = transport(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost {
				text, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				r.Body = io.NopCloser(bytes.NewReader(text))
				form, err := url.ParseQuery(string(text))
				require.NoError(t, err)
				header, err := base64.RawURLEncoding.DecodeString(strings.SplitN(form.Get("client_assertion"), ".", 2)[0])
				require.NoError(t, err)
				sent = string(header)
			}
			return inner.Do(r)
		})
		credential, err := auth.New(options)
		require.NoError(t, err)
		_, err = credential.GetToken(t.Context(), request())
		require.NoError(t, err)
		require.Equal(t, send, strings.Contains(sent, `"x5c"`), sent)
	}
}

// T48: New refuses unusable certificate files and wrong passwords. The error names the fault and
// shows no password.
func TestTrap_T48_CertificatesThatCannotBeRead(t *testing.T) {
	clearEnvironment(t)
	server := authtest.Start(t)
	options := server.Certificate()
	own := read(t, options)
	key, certificate := own.pem(t)
	modern, err := pkcs12.Modern2023.Encode(own.key, own.certificate, nil, "right")
	require.NoError(t, err)
	legacy, err := pkcs12.LegacyDES.Encode(own.key, own.certificate, nil, "right")
	require.NoError(t, err)
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ecKey, _ := material{ec, own.certificate}.pem(t)
	encrypted := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})
	oldEncrypted := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED"}, Bytes: []byte("x")})
	otherKey, _ := other(t).pem(t)
	for _, c := range []struct {
		name, password, field, says string
		data                        []byte
	}{
		{"wrong password, OpenSSL 3", "wr0ng", "CertificatePassword", "the password of", modern},
		{"wrong password, OpenSSL 1", "wr0ng", "CertificatePassword", "the password of", legacy},
		{"no password", "", "CertificatePassword", "the password of", modern},
		{"password of PEM", "wr0ng", "CertificatePassword", "PEM", slices.Concat(key, certificate)},
		{"encrypted PEM", "wr0ng", "CertificatePath", "openssl pkcs12 -export", slices.Concat(certificate, encrypted)},
		{"encrypted PEM of old", "wr0ng", "CertificatePath", "openssl pkcs12 -export", slices.Concat(certificate, oldEncrypted)},
		{"PEM without a key", "", "CertificatePath", "no private key", certificate},
		{"PEM without a certificate", "", "CertificatePath", "no certificate", key},
		{"another's key", "", "CertificatePath", "RSA key", slices.Concat(certificate, otherKey)},
		{"key that is not RSA", "", "CertificatePath", "RSA key", slices.Concat(certificate, ecKey)},
		{"neither PEM nor PKCS#12", "wr0ng", "CertificatePath", "PEM or PKCS#12", []byte("hello")},
		{"nothing", "", "CertificatePath", "PEM or PKCS#12", nil},
	} {
		o := options
		o.ServicePrincipal.CertificatePath, o.ServicePrincipal.CertificatePassword = save(t, c.data), c.password
		require.NoError(t, o.Validate(), "no file is opened")
		_, err := auth.New(o)
		requireInvalid(t, err, "auth.Options.ServicePrincipal."+c.field)
		require.ErrorContains(t, err, c.says, c.name)
		require.NotContains(t, err.Error(), "wr0ng")
		if c.field == "CertificatePath" {
			require.ErrorContains(t, err, o.ServicePrincipal.CertificatePath[:16], "a long path is cut")
		}
	}
	options.ServicePrincipal.CertificatePath = filepath.Join(t.TempDir(), "none.pfx")
	_, err = auth.New(options)
	requireInvalid(t, err, "auth.Options.ServicePrincipal.CertificatePath")
	require.Zero(t, server.Requests())
}

func save(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.pem")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// other returns a certificate that the server does not accept.
func other(t *testing.T) material {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "other"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return material{key, certificate}
}
