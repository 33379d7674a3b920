package cosmostest

import "net/http"

func (c *call) createItem() reply {
	found, missing := c.container()
	if found == nil {
		return missing
	}
	fields, id, bad := c.item(found)
	if bad != nil {
		return *bad
	}
	key := c.key(id)
	if stored := found.items[key]; stored != nil {
		v := stored.latest()
		if c.alive(found, v) || v.fields != nil && c.account.options.ExpiredBlocks {
			return c.inSession(refuse(http.StatusConflict, 0, "an item with this id exists"))
		}
	}
	return c.written(http.StatusCreated, c.write(found, key, fields))
}

func (c *call) replaceItem() reply {
	found, missing := c.container()
	if found == nil {
		return missing
	}
	fields, id, bad := c.item(found)
	if bad != nil {
		return *bad
	}
	if id != c.op.ID {
		return refuse(http.StatusBadRequest, 0, "the id of an item can't be changed")
	}
	if refused := c.precondition(found); refused != nil {
		return *refused
	}
	return c.written(http.StatusOK, c.write(found, c.key(id), fields))
}

func (c *call) deleteItem() reply {
	found, missing := c.container()
	if found == nil {
		return missing
	}
	if refused := c.precondition(found); refused != nil {
		return *refused
	}
	return c.written(http.StatusNoContent, c.write(found, c.key(c.op.ID), nil))
}

// precondition finds the item that is to be changed, and looks at If-Match.
func (c *call) precondition(found *container) *reply {
	stored := found.items[c.key(c.op.ID)]
	if stored == nil || !c.alive(found, stored.latest()) {
		r := c.inSession(refuse(http.StatusNotFound, 0, "no such item"))
		return &r
	}
	if etag := c.r.Header.Get("If-Match"); etag != "" && etag != "*" && etag != stored.latest().etag {
		r := c.inSession(refuse(http.StatusPreconditionFailed, 0, "the item has another etag"))
		return &r
	}
	return nil
}

func (c *call) readItem() reply { return c.read((*item).latest) }

// readStale answers from a replica that is some writes behind, where the session
// allows it. What is no read of an item is answered as always.
func (c *call) readStale(lag int) reply {
	if c.op.Verb != ReadItem {
		return c.handle()
	}
	return c.read(func(i *item) version { return i.behind(lag, c.sessionLSN()) })
}

func (c *call) read(which func(*item) version) reply {
	found, missing := c.container()
	if found == nil {
		return missing
	}
	if c.sessionLSN() > c.account.lsn || c.sessionLSN() > 0 && c.sessionLSN() < found.created {
		return c.inSession(refuse(http.StatusNotFound, 1002, "the read session is not available for the input session token"))
	}
	stored := found.items[c.key(c.op.ID)]
	if stored == nil {
		return c.inSession(refuse(http.StatusNotFound, 0, "no such item"))
	}
	v := which(stored)
	if !c.alive(found, v) {
		return c.inSession(refuse(http.StatusNotFound, 0, "no such item"))
	}
	r := answered(http.StatusOK, v.fields)
	if etag := c.r.Header.Get("If-None-Match"); etag == "*" || etag == v.etag {
		r = answered(http.StatusNotModified, nil)
	}
	r.header.Set("etag", v.etag)
	return c.inSession(r)
}

func (c *call) written(status int, v version) reply {
	r := answered(status, nil)
	if v.fields != nil {
		r.body = v.fields
		r.header.Set("etag", v.etag)
	}
	return c.inSession(r)
}
