# Three Redis servers that know nothing of each other, for Redlock.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# shellcheck shell=bash disable=SC2034,SC2154

# shellcheck source=scripts/servers/redis.sh
. "$root/scripts/servers/redis.sh"

redlock_variable=LEASING_TEST_REDLOCK
redlock_example='redis://:secret@127.0.0.1:6379,127.0.0.1:6380,127.0.0.1:6381/0?mode=redlock'

redlock_bin() { redis_bin; }

redlock_install() { redis_install; }

redlock_start() {
	local password node addresses=
	password=$(redis_password)
	for node in 1 2 3; do
		mkdir "$1/$node"
		redis_serve "$1/$node" "$password" || return 1
		addresses+=${addresses:+,}127.0.0.1:$redis_port
	done
	export LEASING_TEST_REDLOCK="redis://:$password@$addresses/0?mode=redlock"
}
