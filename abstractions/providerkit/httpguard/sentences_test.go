package httpguard_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
)

// T183: a service's message is shown, up to the first sentence that quotes a signature or the signed text.
func TestTrap_T183_SentencesQuoteNoSignature(t *testing.T) {
	const mac = "8Rv0jPUy7Ee1Vv7s7pYvZ4sYkq3VJ4cWb0n2l1xQx9A="
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://h/c?sig=canary", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "SharedKey account:other")
	for message, want := range map[string]string{
		"": "", "This request is not authorized to perform this operation.\nRequestId:1-2\nTime:2026-11-27T00:00:00Z": "This request is not authorized to perform this operation",
		"Request originated from IP 1.2.3.4. This is blocked by your firewall settings. More info: https://aka.ms/x\r\nActivityId: 1-2, Microsoft.Azure.Documents.Common/2.14.0": "Request originated from IP 1.2.3.4. This is blocked by your firewall settings. More info: https://aka.ms/x",
		"Signature not valid in the specified time frame: Start [Mon] - Expiry [Tue] - Current [Wed]":                                                                            "Signature not valid in the specified time frame: Start [Mon] - Expiry [Tue] - Current [Wed]",
		"The MAC signature found in the HTTP request '" + mac + "' is not the same as any computed signature. Server used following string to sign: 'GET\n\nx-ms-date:Fri'.":     "",
		"Signature did not match. String to sign used was rwl\nb. Again: rwl":                                                                                                    "Signature did not match",
		"The wrong key is being used. Server used the following payload to sign: 'get\ndocs. More'":                                                                              "The wrong key is being used",
		"No good: " + mac: "",
		"No good. " + strings.ReplaceAll(mac, "=", "%3D"):                                                                  "No good",
		"The token eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.x is over.":                                                               "",
		"Not for account:other, nor for canary":                                                                            "Not for [secret], nor for [secret]",
		"No permission for [Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/read].":                    "No permission for [Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/read]",
		`Azurite command line parameter "--skipApiVersionCheck" can skip this error.`:                                      `Azurite command line parameter "--skipApiVersionCheck" can skip this error`,
		"Make sure the value of Authorization header is formed correctly including the signature.\nRequestId:1\nTime:2026": "Make sure the value of Authorization header is formed correctly including the signature",
	} {
		require.Equal(t, want, httpguard.Sentences(req, message), message)
	}
	require.Less(t, len(httpguard.Sentences(nil, strings.Repeat("word ", 1000))), 400)
}
