package scripts_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/open"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	redislease "github.com/distributedleasing/leasing/providers/redis"
)

// fakeAz is a fake az command that logs its calls, and records the resources that they make. Its call number $FAIL fails.
const fakeAz = `#!/usr/bin/env bash
set -euo pipefail
state=$FAKE_AZ
{ printf 'az'; printf ' %q' "$@"; echo; } >>"$state/log"
echo x >>"$state/calls"
if [ "$(wc -l <"$state/calls")" = "${FAIL:-0}" ]; then
	echo "az: it fails" >&2
	exit 1
fi
words=()
for word in "$@"; do
	[[ $word != -* ]] || break
	words+=("$word")
done
verb=${words[-1]} key=${words[*]:0:${#words[@]}-1}
file=$state/made.${key// /.}
accounts() { ls "$state" | grep -Ec '^made\.(storage\.account|cosmosdb|redisenterprise)$' || true; }
case "$key $verb" in
"account show") echo 00000000-0000-0000-0000-00000000000a ;;
"account get-access-token") echo e30.TOKEN-_ ;;
"ad signed-in-user show") echo 00000000-0000-0000-0000-00000000000b ;;
"resource list") accounts ;;
"group show") cat "$state/tag.group" ;;
"storage account show") echo /subscriptions/S/resourceGroups/leasing-samples/providers/Microsoft.Storage/storageAccounts/NAME ;;
"cosmosdb show") [ ! -e "$state/made.resource" ] || echo true ;;
"redisenterprise show") echo name.northeurope.redis.azure.net ;;
"storage account list" | "cosmosdb list" | "redisenterprise list") [ ! -e "$file" ] || cat "$state/tag.account" ;;
"cosmosdb sql role definition create")
	touch "$file"
	echo 00000000-0000-0000-0000-00000000000c
	;;
*" list") [ ! -e "$file" ] || echo 00000000-0000-0000-0000-00000000000c ;;
*" exists") [ -e "$file" ] && echo true || echo false ;;
*" create" | *" update") touch "$file" ;;
"group delete") rm -f "$state"/made.* ;;
*" delete") find "$state" -name 'made.*' ! -name made.group -delete ;;
*)
	echo "az: there is no $key $verb" >&2
	exit 2
	;;
esac
`

// azure is a fake Azure subscription in a folder.
type azure struct {
	t             *testing.T
	script, state string
	path          string
}

func newAzure(t *testing.T, script string) *azure {
	a := &azure{t: t, script: script, state: t.TempDir(), path: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(a.path, "az"), []byte(fakeAz), 0o755))
	a.tag("group", "samples")
	a.tag("account", "samples")
	return a
}

// tag sets the tag that names the maker of the group or of the account.
func (a *azure) tag(what, by string) {
	require.NoError(a.t, os.WriteFile(filepath.Join(a.state, "tag."+what), []byte(by+"\n"), 0o600))
}

// made records that a resource exists already.
func (a *azure) made(what string) {
	require.NoError(a.t, os.WriteFile(filepath.Join(a.state, "made."+what), nil, 0o600))
}

// run runs the script. Call number fail of az fails; if fail is 0, no call fails.
func (a *azure) run(fail int, verb string) (code int, out, problems string, calls []string) {
	a.t.Helper()
	for _, name := range []string{"log", "calls"} {
		require.NoError(a.t, os.RemoveAll(filepath.Join(a.state, name)))
	}
	cmd := exec.Command("bash", filepath.Join(root, "samples", "azure", a.script+".sh"), verb)
	cmd.Env = append(os.Environ(), "PATH="+a.path+":"+os.Getenv("PATH"), "FAKE_AZ="+a.state, "FAIL="+strconv.Itoa(fail),
		"LEASING_AZURE_GROUP=", "LEASING_AZURE_LOCATION=", "LEASING_AZURE_NAME=", "LEASING_AZURE_PRINCIPAL=", "LEASING_AZURE_PRINCIPAL_TYPE=", "LEASING_AZURE_AUTH=")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		require.IsType(a.t, &exec.ExitError{}, err)
	}
	log, err := os.ReadFile(filepath.Join(a.state, "log"))
	require.NoError(a.t, err)
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), strings.Split(strings.TrimSpace(string(log)), "\n")
}

var azureScripts = []string{"blob", "cosmos", "redis"}

// changing finds the calls that change something.
var changing = regexp.MustCompile(`^az [a-z -]*\b(create|update|delete)\b`)

func changes(calls []string) (found []string) {
	for _, call := range calls {
		if changing.MatchString(call) {
			found = append(found, call)
		}
	}
	return found
}

// Each script makes the expected calls, and repeating up or down changes nothing.
func TestTheAzureScriptsMakeAndRemoveAnAccount(t *testing.T) {
	for _, script := range azureScripts {
		t.Run(script, func(t *testing.T) {
			a := newAzure(t, script)
			var text strings.Builder
			for i, verb := range []string{"up", "up", "down", "down"} {
				code, out, problems, calls := a.run(0, verb)
				require.Zero(t, code, problems)
				if again := i%2 == 1; again {
					require.Empty(t, changes(calls), "%s again", verb)
				} else {
					require.NotEmpty(t, changes(calls), verb)
				}
				fmt.Fprintf(&text, "$ samples/azure/%s.sh %s\n%s%s\n%s\n\n", script, verb, out, problems, strings.Join(calls, "\n"))
			}
			golden := filepath.Join("testdata", "azure", script+".txt")
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o750))
				require.NoError(t, os.WriteFile(golden, []byte(text.String()), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), text.String(), "go test ./scripts -run Azure -update writes it")
		})
	}
}

// A script that goes on after a failure would print the URL of an account that was not made, or
// leave an account behind that costs money.
func TestTrap_T268_AnAzureScriptEndsWithItsFirstFailure(t *testing.T) {
	for _, script := range azureScripts {
		t.Run(script, func(t *testing.T) {
			for _, verb := range []string{"up", "down"} {
				begin := func() *azure {
					a := newAzure(t, script)
					if verb == "down" {
						code, _, problems, _ := a.run(0, "up")
						require.Zero(t, code, problems)
					}
					return a
				}
				_, _, _, calls := begin().run(0, verb)
				for n := 1; n <= len(calls); n++ {
					a := begin()
					code, out, problems, made := a.run(n, verb)
					require.NotZero(t, code, "%s: call %d fails: %s", verb, n, calls[n-1])
					require.Empty(t, out)
					require.Contains(t, problems, "az: it fails")
					require.Equal(t, calls[:n], made, "no call follows")
					code, _, problems, _ = a.run(0, verb)
					require.Zero(t, code, "it can be repeated: %s", problems)
				}
			}
		})
	}
}

// The scripts neither change an account nor remove a group that lacks the tag leasing=samples.
func TestTrap_T269_AnAzureScriptLeavesAlone(t *testing.T) {
	for script, account := range map[string]string{"blob": "storage.account", "cosmos": "cosmosdb", "redis": "redisenterprise"} {
		t.Run(script, func(t *testing.T) {
			a := newAzure(t, script)
			a.made("group")
			a.made(account)
			a.tag("account", "none")
			for _, verb := range []string{"up", "down"} {
				code, out, problems, calls := a.run(0, verb)
				require.Equal(t, 1, code)
				require.Empty(t, out)
				require.Contains(t, problems, "has no tag leasing=samples")
				require.Empty(t, changes(calls), "an account without the tag")
			}
			a.tag("account", "samples")
			a.tag("group", "None")
			code, _, problems, calls := a.run(0, "down")
			require.Zero(t, code, problems)
			require.Len(t, changes(calls), 1, "the account goes, and a group without the tag stays")
			require.NotContains(t, changes(calls)[0], "group delete")
		})
	}
}

// A shell can run the output of a script unchanged, and the provider can open the URL in the output.
func TestTheAzureScriptsPrintWhatToRun(t *testing.T) {
	openers := map[string]func(url string) error{
		"blob":   func(url string) error { return opens(t, url, bloblease.Opener()) },
		"cosmos": func(url string) error { return opens(t, url, cosmoslease.Opener()) },
		"redis":  func(url string) error { return opens(t, url, redislease.Opener()) },
	}
	for _, script := range azureScripts {
		a := newAzure(t, script)
		code, out, problems, _ := a.run(0, "up")
		require.Zero(t, code, problems)
		require.NoError(t, os.WriteFile(filepath.Join(a.path, "leasing"), []byte("#!/bin/sh\necho \"$1 $LEASING_URL\"\n"), 0o755)) //nolint:gosec // a program
		cmd := exec.Command("bash", "-euc", out)
		cmd.Env = append(os.Environ(), "PATH="+a.path+":"+os.Getenv("PATH"), "FAKE_AZ="+a.state)
		printed, err := cmd.CombinedOutput()
		require.NoError(t, err, string(printed))
		url, found := strings.CutPrefix(strings.TrimSpace(string(printed)), "doctor ")
		require.True(t, found, string(printed))
		require.NoError(t, openers[script](url), url)
	}
}

func opens(t *testing.T, url string, opener abstractions.Opener) error {
	p, err := open.URL(t.Context(), url, opener)
	if err == nil {
		err = p.Close()
	}
	return err
}

func TestTheRoleOfCosmosIsThatOfThePackage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "samples", "azure", "cosmos.sh"))
	require.NoError(t, err)
	var actions []string
	for _, action := range regexp.MustCompile(`"(Microsoft\.DocumentDB/[^"]*)"`).FindAllStringSubmatch(string(text), -1) {
		actions = append(actions, action[1])
	}
	require.Equal(t, strings.Split(cosmoslease.RoleDefinition, "\n"), actions)
}
