# Shared by the scripts of this folder. Source it from bash; it sets no options.
# shellcheck shell=bash

# say prints a note for the person who watches. It goes to standard error, so
# that a command's output stays its own.
say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

die() {
	say "$*"
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# can_install succeeds where apt_install can work at all.
can_install() { [ "$(id -u)" = 0 ] && have apt-get; }

# apt_install installs Debian packages without asking and without starting any
# service they bring: the tests start their own servers in their own folders.
# A subshell, so that what says so is removed whatever happens.
apt_install() (
	policy=/usr/sbin/policy-rc.d
	log=$(mktemp)
	trap 'rm -f "$log" "$policy"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	if [ -e "$policy" ]; then
		policy=$log # somebody else's; leave it alone
	else
		printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
	fi
	say "installing $* with apt-get"
	export DEBIAN_FRONTEND=noninteractive
	{
		apt-get update -q -o DPkg::Lock::Timeout=300 &&
			apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
	} >"$log" 2>&1 </dev/null || {
		cat "$log" >&2
		exit 1
	}
)

# url_of BACKEND prints the URL of a backend, whose server's variable is set, for the
# samples. Memory and SQLite have none, but their name.
url_of() {
	case $1 in
	postgres) printf '%s' "$LEASING_TEST_POSTGRES" ;;
	redis) printf '%s' "$LEASING_TEST_REDIS" ;;
	redlock) printf '%s' "$LEASING_TEST_REDLOCK" ;;
	azurite | blob) printf 'azblob:///samples?connection_string_env=LEASING_TEST_AZURITE&create=true' ;;
	cosmos) printf '%s?create=true' "$LEASING_TEST_COSMOS" ;;
	s3) printf '%s' "$LEASING_TEST_S3" ;;
	etcd) printf '%s' "$LEASING_TEST_ETCD" ;;
	mariadb) printf '%s' "$LEASING_TEST_MARIADB" ;;
	consul) printf '%s' "$LEASING_TEST_CONSUL" ;;
	kubernetes) printf '%s' "$LEASING_TEST_KUBERNETES" ;;
	*) printf '%s' "$1" ;;
	esac
}

# patterns prints the packages of all modules of the workspace, as the go
# command takes them.
patterns() { go list -m -f '{{.Dir}}/...'; }

# tool NAME [FOLDER] prints the path of a program that integration/tools/go.mod pins, or
# that of a folder in there, after building it where the build cache lacks it. The modules
# stay out of the workspace, since their many dependencies would raise the versions we
# test with.
tool() (
	cd "integration/tools/${2:-}" || exit
	export GOWORK=off GOFLAGS=''
	go tool -n "$1" 2> >(grep -v '^go: downloading ' >&2)
)

# step NAME COMMAND... runs a command and notes the result in the file named by
# LEASING_STEPS, if any; testreport prints these.
step() {
	local name=$1 from=$SECONDS status=0
	shift
	say "$name"
	"$@" || status=$?
	[ -z "${LEASING_STEPS:-}" ] ||
		printf '%s\t%s\t%d\n' "$name" "$([ "$status" = 0 ] && echo ok || echo failed)" $((SECONDS - from)) >>"$LEASING_STEPS"
	[ "$status" = 0 ] || say "$name FAILED"
	return "$status"
}
