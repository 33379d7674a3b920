package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
)

// reference is ${NAME} or ${NAME:-default}, as in a shell and in compose files.
var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// expand replaces the references to environment variables in the strings of a
// JSON value. A variable that is not set and has no default is an error that
// names it, and where it stands; values are never shown.
func expand(path string, value json.RawMessage, env lookup) (json.RawMessage, error) {
	if len(value) == 0 {
		return value, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber() // digits stay as they are
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	expanded, err := expandTree(path, tree, env)
	if err != nil {
		return nil, err
	}
	return json.Marshal(expanded)
}

func expandTree(path string, tree any, env lookup) (_ any, err error) {
	switch node := tree.(type) {
	case string:
		return expandText(path, node, env)
	case map[string]any:
		for key, value := range node {
			if node[key], err = expandTree(path+"."+key, value, env); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, value := range node {
			if node[i], err = expandTree(fmt.Sprintf("%s[%d]", path, i), value, env); err != nil {
				return nil, err
			}
		}
	}
	return tree, nil
}

func expandText(path, text string, env lookup) (string, error) {
	var missing error
	expanded := reference.ReplaceAllStringFunc(text, func(match string) string {
		parts := reference.FindStringSubmatch(match)
		name, hasDefault, fallback := parts[1], parts[2] != "", parts[3]
		if value, found := env(name); found && value != "" {
			return value
		}
		if !hasDefault {
			missing = fmt.Errorf("%s: the environment variable %s is not set", path, name)
		}
		return fallback
	})
	return expanded, missing
}
