'use strict';
// Keeps #live as the server sends it, while the page can be seen.
(() => {
	const live = document.getElementById('live'), state = document.getElementById('state');
	if (!live || !state) return;
	let source = null, retry = 0;

	function say(kind, text) {
		state.className = 'live ' + kind;
		if (state.textContent !== text) state.textContent = text;
	}

	function open() {
		clearTimeout(retry);
		if (source || document.hidden) return;
		source = new EventSource(live.dataset.src);
		source.onmessage = (event) => {
			const parsed = document.createElement('template');
			parsed.innerHTML = event.data;
			become(live, parsed.content);
			say('on', 'live');
		};
		source.onerror = () => {
			say('off', 'not live since ' + new Date().toISOString().slice(11, 19) + ' UTC');
			if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
			source = null;
			retry = setTimeout(open, 5000);
		};
	}

	function close() {
		clearTimeout(retry);
		if (source) source.close();
		source = null;
	}

	// become gives an element the children of another one, and keeps those that are the
	// same: focus, selection and scroll position stay.
	function become(element, want) {
		const keyOf = (node) => node.dataset ? node.dataset.key : undefined;
		const keys = new Set(Array.from(want.children, keyOf)), old = new Map();
		for (const child of Array.from(element.children)) {
			const key = keyOf(child);
			if (key === undefined) continue;
			if (keys.has(key)) old.set(key, child); else child.remove();
		}
		let at = element.firstChild;
		for (const child of Array.from(want.childNodes)) {
			const key = keyOf(child);
			let same = key === undefined ? at : old.get(key);
			if (!same || same.nodeName !== child.nodeName || keyOf(same) !== key) {
				if (key !== undefined && old.size) child.classList.add('new');
				element.insertBefore(child, at);
				continue;
			}
			if (same === at) at = at.nextSibling; else element.insertBefore(same, at);
			if (same.nodeType !== Node.ELEMENT_NODE) {
				if (same.data !== child.data) same.data = child.data;
				continue;
			}
			for (const name of same.getAttributeNames()) if (!child.hasAttribute(name)) same.removeAttribute(name);
			for (const name of child.getAttributeNames()) if (same.getAttribute(name) !== child.getAttribute(name)) same.setAttribute(name, child.getAttribute(name));
			become(same, child);
		}
		while (at) {
			const next = at.nextSibling;
			at.remove();
			at = next;
		}
	}

	document.addEventListener('visibilitychange', () => document.hidden ? close() : open());
	open();
})();
