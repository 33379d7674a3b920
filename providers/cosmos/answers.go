package cosmoslease

import (
	"encoding/json"
	"net/http"
	"strings"
)

// isOwn reports whether an answer comes from Cosmos DB. After any other answer the outcome
// of the request is unknown, since a proxy or gateway may have answered in the service's
// place.
//
// Each answer from the service has the header x-ms-activity-id, and most have
// x-ms-request-charge
// (learn.microsoft.com/rest/api/cosmos-db/common-cosmosdb-rest-response-headers). In addition,
// the answer about an item has an ETag, a page of a query has Documents, and the answer about
// the account has its regions.
func isOwn(req *http.Request, response *http.Response, body []byte) bool {
	header := response.Header
	if header.Get("x-ms-activity-id") == "" && header.Get("x-ms-request-charge") == "" {
		return false
	}
	switch item := strings.Count(req.URL.Path, "/") >= 5; { // /dbs/{db}/colls/{container}/docs
	case response.StatusCode/100 != 2, req.Method == http.MethodDelete:
		return true
	case isAccount(req):
		a := accountOf(body)
		return len(a.Writable) > 0 && len(a.Readable) > 0
	case item && req.Header.Get("Content-Type") == "application/query+json":
		var page struct{ Documents []json.RawMessage }
		return json.Unmarshal(body, &page) == nil && page.Documents != nil
	case item:
		return header.Get("ETag") != ""
	default: // a database or a container
		return json.Valid(body)
	}
}

// isAccount reports whether a request reads the account.
func isAccount(req *http.Request) bool { return req.Method == http.MethodGet && len(req.URL.Path) <= 1 }

// account is the answer that learn.microsoft.com/rest/api/cosmos-db/get-database-account
// documents.
type account struct {
	Writable []json.RawMessage `json:"writableLocations"`
	Readable []json.RawMessage `json:"readableLocations"`
	Several  bool              `json:"enableMultipleWriteLocations"`
}

func accountOf(body []byte) (a account) {
	_ = json.Unmarshal(body, &a) // a body of another form has no regions
	return a
}
