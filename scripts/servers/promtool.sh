# promtool and prometheus, of Debian's package, which test rules and dashboard: programs, and no server that is shared.
# Built from its Go module it would take minutes, for the sake of every cloud that Prometheus knows.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# shellcheck shell=bash disable=SC2034

promtool_variable=LEASING_TEST_PROMTOOL
promtool_example=/usr/bin/promtool

promtool_bin() { command -v promtool; }

promtool_install() { apt_install prometheus; }

promtool_start() {
	LEASING_TEST_PROMTOOL=$(promtool_bin) && export LEASING_TEST_PROMTOOL
}
