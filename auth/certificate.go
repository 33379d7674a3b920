package auth

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
	"software.sslmate.com/src/go-pkcs12"
)

const (
	fieldCertificate = "auth.Options.ServicePrincipal.CertificatePath"
	fieldPassword    = "auth.Options.ServicePrincipal.CertificatePassword"
)

func (o Options) clientCertificate() (azcore.TokenCredential, error) {
	client, disableDiscovery, err := o.clientOptions()
	if err != nil {
		return nil, err
	}
	s := o.ServicePrincipal
	made := liveCertificate{livefile.New(func(contents [][]byte) (*azidentity.ClientCertificateCredential, error) {
		certificates, key, err := readCertificate(s.CertificatePath, contents[0], s.CertificatePassword)
		if err != nil {
			return nil, err
		}
		made, err := azidentity.NewClientCertificateCredential(s.TenantID, s.ClientID, certificates, key, &azidentity.ClientCertificateCredentialOptions{
			ClientOptions: client, DisableInstanceDiscovery: disableDiscovery, SendCertificateChain: s.SendCertificateChain,
		})
		if err != nil {
			return nil, invalid(fieldCertificate, s.CertificatePath, "a certificate with an RSA key: "+err.Error())
		}
		return made, nil
	}, s.CertificatePath)}
	_, err = made.newest.Get()
	if already := (*leasing.InvalidError)(nil); err != nil && !errors.As(err, &already) {
		err = invalid(fieldCertificate, s.CertificatePath, "a file that can be read: "+err.Error())
	}
	if err != nil {
		return nil, err
	}
	return made, nil
}

// liveCertificate asks for tokens with the newest contents of a file. A new certificate starts without
// the cached tokens of its predecessor.
type liveCertificate struct {
	newest *livefile.Value[*azidentity.ClientCertificateCredential]
}

func (l liveCertificate) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	newest, err := l.newest.Get()
	if err != nil {
		return azcore.AccessToken{}, err
	}
	token, err := newest.GetToken(ctx, options)
	if stale := l.newest.Stale(); err != nil && stale != nil {
		err = fmt.Errorf("%w (the newest certificate is not in use: %v)", err, stale)
	}
	return token, err
}

// readCertificate reads a certificate, its issuers' certificates, and its key.
func readCertificate(path string, data []byte, password string) ([]*x509.Certificate, crypto.PrivateKey, error) {
	if block, _ := pem.Decode(data); block != nil {
		return readPEM(path, data, password)
	}
	return readPKCS12(path, data, password)
}

// readPEM reads PEM as azidentity.ParseCertificates accepts it, with an unencrypted key.
func readPEM(path string, data []byte, password string) ([]*x509.Certificate, crypto.PrivateKey, error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
			return nil, nil, invalid(fieldCertificate, path,
				"PEM with a key that is not encrypted, or PKCS#12 with a password: openssl pkcs12 -export -in this.pem -out that.pfx")
		}
	}
	if password != "" {
		return nil, nil, invalid(fieldPassword, notShown, "no value, since the file is PEM with a key that is not encrypted")
	}
	certificates, key, err := azidentity.ParseCertificates(data, nil)
	if err != nil {
		return nil, nil, invalid(fieldCertificate, path, "PEM with a certificate and its RSA key: "+err.Error())
	}
	return certificates, key, nil
}

// readPKCS12 also reads files that OpenSSL 3 writes, which are authenticated with
// SHA-256. azidentity.ParseCertificates can't read them, as it documents.
func readPKCS12(path string, data []byte, password string) ([]*x509.Certificate, crypto.PrivateKey, error) {
	key, certificate, above, err := pkcs12.DecodeChain(data, password)
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword):
		return nil, nil, invalid(fieldPassword, notShown, "the password of "+path)
	case err != nil:
		return nil, nil, invalid(fieldCertificate, path, "PEM or PKCS#12 with one certificate and its key: "+err.Error())
	}
	return append([]*x509.Certificate{certificate}, above...), key, nil
}
