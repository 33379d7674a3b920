package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
)

// Id makes an ID. No later answer may show the ID.
func (e *Env) Id() string {
	id := abstractions.NewID()
	e.ids.Store(id, true)
	return id
}

// hidesIDs fails the check if an answer shows an ID. A grant may show its own ID, since the
// holder has that ID.
func (e *Env) hidesIDs(answer any) {
	switch answer := answer.(type) {
	case abstractions.Grant:
		return
	case []abstractions.RenewResult:
		for _, result := range answer {
			e.errorHidesIDs(result.Err)
		}
		return
	}
	text, _ := json.Marshal(answer)
	e.textHidesIDs(fmt.Sprintf("%v %+v %#v %s", answer, answer, answer, text))
}

// errorHidesIDs is hidesIDs for an error and all errors that it wraps.
func (e *Env) errorHidesIDs(err error) {
	if err == nil {
		return
	}
	e.textHidesIDs(fmt.Sprintf("%v %+v %#v", err, err, err))
	switch err := err.(type) {
	case *abstractions.HeldError:
		e.hidesIDs(*err)
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			e.errorHidesIDs(one)
		}
	default:
		e.errorHidesIDs(errors.Unwrap(err))
	}
}

func (e *Env) textHidesIDs(text string) {
	const before, length = 8, 36 // of an ID of NewID: the bytes before its first hyphen, and all bytes
	for i := before; i+length-before <= len(text); i++ {
		if text[i] != '-' {
			continue
		}
		if id := text[i-before : i-before+length]; strings.Count(id, "-") == 4 {
			_, known := e.ids.Load(id)
			e.False(known, "an answer shows a claim's ID: %s in: %s", id, text)
		}
	}
}
