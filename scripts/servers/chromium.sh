# Chromium, in which integration/console looks at the console's pages: a program and no server, of Debian's packages
# chromium and fonts-liberation.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# shellcheck shell=bash disable=SC2034

chromium_variable=LEASING_TEST_CHROMIUM
chromium_example=/usr/bin/chromium

chromium_bin() { command -v chromium; }

chromium_install() { apt_install chromium fonts-liberation; }

chromium_start() {
	LEASING_TEST_CHROMIUM=$(chromium_bin) && export LEASING_TEST_CHROMIUM
}
