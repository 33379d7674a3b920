CREATE TABLE IF NOT EXISTS `lease_version` (
	version    INT PRIMARY KEY,
	swept      VARBINARY(512) NOT NULL DEFAULT '',
	applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `lease` (
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

CREATE TABLE IF NOT EXISTS `lease_history` (
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

INSERT INTO `lease_version` (version) VALUES (1);

-- rows
INSERT INTO `lease` (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters)
VALUES ('free', 1789000000123456, 1789000000123455, '', '', NULL, '{}', NULL, 0, 0, '', '', X'deb0e38ced1e41de006aa1f940', '');
INSERT INTO `lease` (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters)
VALUES ('held', 1789000000123456, 1789000000123456, '00000000000000000000000000000000', 'host-1', 30000000, '{"region":"north"}', 1789000000123456, 4789000032123456, 0, '', '', X'', '');
INSERT INTO `lease` (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters)
VALUES ('forever', 1789000000123457, 1789000000123457, '11111111111111111111111111111111', 'host-2', NULL, '{}', 1789000000123457, 0, 0, '', '', X'', '');
INSERT INTO `lease` (name, version, token, id, owner, ttl_us, metadata, acquired_us, expires_us, breaking, broken_by, break_reason, ended, waiters)
VALUES ('broken', 1789000000123458, 1789000000123458, '22222222222222222222222222222222', 'host-3', 30000000, '{}', 1789000000123458, 4789000032123456, 1, 'operator', 'it hangs', X'', '');
