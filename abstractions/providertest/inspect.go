package providertest

import "maps"

var inspectChecks = []check{
	{name: "Inspect_MapsAreNotShared", run: func(e *env) {
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
	}},
}
