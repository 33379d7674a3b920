-- Each statement is a transaction, so this can be begun again: the table that says the version is the first, and has its row at
-- last. Times are in microseconds since 1970. token, id, version, ended: as on PostgreSQL. An expires_us of 0 is never;
-- it is that of a reservation while id is empty. waiters: see waitlist.go.
CREATE TABLE IF NOT EXISTS {{schema}} (
	version    INT PRIMARY KEY,
	swept      VARBINARY(512) NOT NULL DEFAULT '',
	applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS {{lease}} (
	name         VARBINARY(512) NOT NULL PRIMARY KEY,
	version      BIGINT NOT NULL,
	token        BIGINT NOT NULL,
	id           VARCHAR(64) NOT NULL,
	owner        VARCHAR(256) NOT NULL,
	ttl_us       BIGINT NULL,
	metadata     TEXT NOT NULL,
	acquired_us  BIGINT NULL,
	expires_us   BIGINT NOT NULL,
	breaking     BOOLEAN NOT NULL,
	broken_by    VARCHAR(256) NOT NULL,
	break_reason VARCHAR(512) NOT NULL,
	ended        VARBINARY(1024) NOT NULL,
	waiters      MEDIUMTEXT NOT NULL
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT = DYNAMIC;
CREATE TABLE IF NOT EXISTS {{history}} (
	seq    BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
	name   VARBINARY(512) NOT NULL,
	at_us  BIGINT NOT NULL,
	kind   VARCHAR(64) NOT NULL,
	id     VARCHAR(64) NOT NULL,
	owner  VARCHAR(256) NOT NULL,
	token  BIGINT NOT NULL,
	actor  VARCHAR(256) NOT NULL,
	reason VARCHAR(512) NOT NULL,
	INDEX by_name (name, seq)
) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT = DYNAMIC;
INSERT INTO {{schema}} (version) VALUES ({{version}})
