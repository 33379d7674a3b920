package providertest

import (
	"maps"
	"strings"
)

var inspectChecks = []check{
	{name: "Inspect_UnseenNameIsFreeWithTokenZero", run: inspectUnseen},
	{name: "Inspect_ShowsTheHolder", run: inspectShowsTheHolder},
	{name: "Inspect_DisturbsNothing", run: inspectDisturbsNothing},
	{name: "Inspect_MetadataComesBackAsItWent", run: metadataComesBack},
	{name: "Inspect_MetadataIsTheHoldersOwn", run: metadataIsTheHoldersOwn},
	{name: "Inspect_MapsAreNotShared", run: mapsAreNotShared},
}

func inspectUnseen(e *env) {
	record := e.inspect(e.name())
	e.False(record.Held)
	e.Zero(record.Token)
	left, known := record.Remaining()
	e.True(known)
	e.Zero(left)
}

func inspectShowsTheHolder(e *env) {
	req := e.request(e.name())
	req.Owner = `host "1", process 7 (наш)`
	holder := e.acquire(e.p, req)
	record := e.inspect(req.Name)
	e.True(record.Held)
	e.Equal(req.ID, record.ID)
	e.Equal(req.Owner, record.Owner)
	e.Equal(holder.token(), record.Token)
	e.Equal(req.TTL, record.TTL)
	e.Empty(record.Metadata)
	e.False(record.Breaking)
	e.False(record.Unconfirmed)
	_, known := record.Remaining()
	e.Equal(e.caps.RemainingKnown, known, "Capabilities.RemainingKnown")
	if !record.AcquiredAt.IsZero() && !record.Now.IsZero() {
		e.False(record.AcquiredAt.After(record.Now), "acquired at %v, now %v", record.AcquiredAt, record.Now)
	}
	if !record.AcquiredAt.IsZero() && !record.ExpiresAt.IsZero() {
		e.InDelta(req.TTL, record.ExpiresAt.Sub(record.AcquiredAt), float64(e.caps.Lateness.After(req.TTL)+e.tolerance(req.TTL)), "ExpiresAt - AcquiredAt")
	}
}

func inspectDisturbsNothing(e *env) {
	holder := e.take(e.name())
	first := e.inspect(holder.req.Name)
	for range 5 {
		record := e.inspect(holder.req.Name)
		e.WithinDuration(first.ExpiresAt, record.ExpiresAt, e.tolerance(e.long), "an inspection prolongs nothing")
		record.ExpiresAt, record.Now = first.ExpiresAt, first.Now
		e.Equal(first, record)
	}
	holder.renew(e.long)
	holder.release()
	e.inspect(holder.req.Name)
	e.isFree(holder.req.Name)
}

func metadataComesBack(e *env) {
	for _, metadata := range []map[string]string{
		nil,
		{},
		{"a": ""},
		{"Case": "1", "case": "2", "CASE": "3"},
		{"dash-ed": "1", "under_score": "2", "dot.ted": "3", "sp ace": "4", "1st": "5", "схема": "имя", "$key": "6", "a/b": "7"},
		{"value": " leading, trailing \n\t\r\"'\\ %41 <>&   日本語 🔒 "},
		{"json": `{"a":[1,2.50,null]}`, "number": "9007199254740993", "bool": "true"},
		{"long": strings.Repeat("é", 2000)},
	} {
		req := e.request(e.name())
		req.Metadata = metadata
		e.acquire(e.p, req)
		record := e.inspect(req.Name)
		e.Len(record.Metadata, len(metadata))
		for key, value := range metadata {
			e.Equal(value, record.Metadata[key], "%q", key)
		}
		held := e.refused(req.Name).Holder
		if held.Metadata != nil {
			e.True(maps.Equal(metadata, held.Metadata), "HeldError.Holder.Metadata")
		}
	}
}

func metadataIsTheHoldersOwn(e *env) {
	first := e.request(e.name())
	first.Metadata = map[string]string{"only": "the first"}
	holder := e.acquire(e.p, first)
	holder.release()
	second := e.request(first.Name)
	second.Metadata = map[string]string{"other": "the second"}
	next := e.acquire(e.p, second)
	e.Equal(second.Metadata, e.inspect(first.Name).Metadata)
	next.release()
	e.take(first.Name)
	e.Empty(e.inspect(first.Name).Metadata)
}

func mapsAreNotShared(e *env) {
	req := e.request(e.name())
	req.Metadata = map[string]string{"region": "north"}
	want := maps.Clone(req.Metadata)
	e.acquire(e.p, req)
	e.Equal(want, req.Metadata, "the provider does not change the request's map")
	req.Metadata["region"] = "south"
	record := e.inspect(req.Name)
	e.Equal(want, record.Metadata, "the provider does not keep the request's map")
	record.Metadata["region"] = "west"
	if held := e.refused(req.Name).Holder.Metadata; held != nil {
		held["region"] = "east"
	}
	e.Equal(want, e.inspect(req.Name).Metadata, "what is returned is the caller's")
}
