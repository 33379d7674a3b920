# The API server of Kubernetes over an etcd: both built from source, at the versions that
# integration/tools/kubernetes and integration/tools/etcd pin, which takes minutes the first
# time. Nothing but leases is tried, so there are no nodes and no controllers.
# Sourced by scripts/with-servers; see there for what a file like this defines.
# Tests that stop servers start theirs themselves, from the same programs: KUBE_APISERVER, ETCD.
# shellcheck shell=bash disable=SC2034,SC2154

kubernetes_variable=LEASING_TEST_KUBERNETES
kubernetes_example='kubernetes://:token@127.0.0.1:6443/default?ca_file=/path/of/ca.crt (some tests start servers of their own beside it: they need the paths of the programs in KUBE_APISERVER and ETCD)'

kubernetes_bin() { have go && have openssl; }

kubernetes_install() {
	have go || {
		say "the go command is missing"
		return 1
	}
	apt_install openssl
}

kubernetes_start() {
	local program etcd port store peer
	program=${KUBE_APISERVER:-$(cd "$root" && tool kube-apiserver kubernetes)} || return 1
	etcd=${ETCD:-$(cd "$root" && tool server etcd)} || return 1
	mkdir -p "$1/etcd" "$1/certificates" && chmod 700 "$1/etcd" || return 1
	openssl genrsa -out "$1/key" 2048 2>"$1/log" && echo 'secret,admin,1,system:masters' >"$1/tokens" || return 1
	for port in $(free_ports 56443); do
		store=$(free_ports $((port - 3000)) | head -1)
		peer=$(free_ports $((port - 2000)) | head -1)
		start_server "$1/etcd.log" 'TERM' exec_as "$(id -un)" "$etcd" --data-dir "$1/etcd" --unsafe-no-fsync --log-level error \
			--listen-client-urls "http://127.0.0.1:$store" --advertise-client-urls "http://127.0.0.1:$store" \
			--listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
			--initial-cluster "default=http://127.0.0.1:$peer"
		wait_until 60 "$server_pid" answers "$store" || continue
		start_server "$1/log" 'KILL' exec_as "$(id -un)" "$program" --etcd-servers "http://127.0.0.1:$store" \
			--bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "$port" --cert-dir "$1/certificates" \
			--service-account-key-file "$1/key" --service-account-signing-key-file "$1/key" --service-account-issuer https://leasing.test \
			--service-cluster-ip-range 10.0.0.0/24 --disable-admission-plugins ServiceAccount \
			--token-auth-file "$1/tokens" --authorization-mode RBAC --endpoint-reconciler-type none
		if wait_until 120 "$server_pid" kubernetes_ready "$port"; then
			export KUBE_APISERVER=$program ETCD=$etcd
			export LEASING_TEST_KUBERNETES="kubernetes://:secret@127.0.0.1:$port/default?ca_file=$1/certificates/apiserver.crt"
			say "Kubernetes' API server listens on 127.0.0.1:$port"
			return 0
		fi
		grep -qs 'address already in use' "$1/log" "$1/etcd.log" || break
	done
	cat "$1/etcd.log" "$1/log" >&2
	return 1
}

# kubernetes_ready PORT succeeds once the server does what it is asked.
kubernetes_ready() {
	answers "$1" && printf 'GET /readyz HTTP/1.0\r\nAuthorization: Bearer secret\r\n\r\n' |
		openssl s_client -quiet -connect "127.0.0.1:$1" 2>/dev/null | grep -qs '^ok'
}
