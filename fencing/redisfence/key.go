package redisfence

import (
	"strings"

	"github.com/distributedleasing/leasing"
)

// Key returns the key of the fence that protects another key, in the
// same slot of a Redis Cluster, so that one script may touch both:
//
//	report      ->  fence:{report}:report
//	{user7}:in  ->  fence:{user7}:{user7}:in
//
// Two keys never share a fence. If a resource has several keys, give all of
// them one hash tag, and always use the fence of the same key.
//
// A key that contains "}" but no hash tag is refused, since it can't become a
// hash tag itself. An empty key is also refused. Redis documents hash tags in
// its Cluster specification.
func Key(key string) (string, error) {
	tag := hashTag(key)
	if tag == "" || strings.Contains(tag, "}") {
		return "", &leasing.InvalidError{Field: "key", Value: key, Want: `a key with a hash tag, as in "{user7}:in", or without "}"`}
	}
	return "fence:{" + tag + "}:" + key, nil
}

// hashTag returns the part of a key that determines its slot: the text between
// the first "{" and the first "}" after it, or the whole key if there is no
// such text.
func hashTag(key string) string {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
			return tag
		}
	}
	return key
}
