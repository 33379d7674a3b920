package cosmostest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// reply is what a request is answered with.
type reply struct {
	status int
	header http.Header
	body   any // written as JSON; nil for none
}

func answered(status int, body any) reply {
	return reply{status: status, header: http.Header{}, body: body}
}

func refuse(status, substatus int, why string) reply {
	r := answered(status, map[string]string{"code": http.StatusText(status), "message": why})
	if substatus != 0 {
		r.header.Set("x-ms-substatus", strconv.Itoa(substatus))
	}
	return r
}

// answer writes a reply. Its Date is the service's time, in whole seconds.
func (c *call) answer(r reply) {
	header := c.w.Header()
	for name, values := range r.header {
		header[name] = values
	}
	header.Set("Date", c.account.options.Now().UTC().Format(http.TimeFormat))
	header.Set("x-ms-request-charge", "1")
	header.Set("Content-Type", "application/json")
	if minimal(c.r) && c.op.Write() && r.status < 300 {
		r.body = nil
	}
	c.w.WriteHeader(r.status)
	if r.body == nil {
		return
	}
	if err := json.NewEncoder(c.w).Encode(r.body); err != nil {
		panic(fmt.Sprintf("fake: %v", err))
	}
}

// minimal is what azcosmos asks for unless it is told otherwise.
func minimal(r *http.Request) bool { return r.Header.Get("Prefer") == "return=minimal" }
