-- A store file of version 1 with one run, beside the tables of `crates/sqlite/src/store/schema/1.sql`.
PRAGMA application_id = 1634166391;
PRAGMA user_version = 1;
INSERT INTO runs VALUES (1, 'run one', 1, 'job', 'd1', 'paused', 'approval', NULL, 1700000000001, 3, '4711-00000000deadbeef');
INSERT INTO events VALUES (4294967297, 1700000000001, '', '{"name":"run.started","payload":{"version":1,"body":{"workflow":{"name":"job","definition":"d1","input":{"n":1}}}}}', -1067859138547020488);
INSERT INTO events VALUES (4294967298, 1700000000002, 'plan/tool#1.search[1]', '{"name":"workflow.node.skipped","payload":{"reason":"not needed"}}', 7728533083622834902);
INSERT INTO events VALUES (4294967299, 1700000000003, '', '{"name":"run.paused","payload":{"reason":"approval"}}', -7288482725444977977);
INSERT INTO snapshots VALUES (1, 2, '[{"seq":1,"time":1700000000001,"path":"","event":{"name":"run.started","payload":{"version":1,"body":{"workflow":{"name":"job","definition":"d1","input":{"n":1}}}}}}]', -754026434605903957);
INSERT INTO definitions VALUES ('d1', '{}');
INSERT INTO messages VALUES (1, 1, 'hello');
