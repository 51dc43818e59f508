//! With `AGENTFLOW_OFFLINE` set, no third-party package is installed or used, and each test that
//! needs one reports this.

use agentflow_tests::{aimock, llmock, sdk_types, test_as_process};

/// Variable that marks the process started by this test.
const INSIDE: &str = "AGENTFLOW_TEST_INSTALLS_NOTHING";

#[test]
fn the_offline_switch_skips_whatever_would_install() {
    if std::env::var_os(INSIDE).is_some() {
        assert!(aimock().is_none() && llmock().is_none() && sdk_types().is_none());
        return;
    }
    let output = test_as_process(module_path!(), "the_offline_switch_skips_whatever_would_install")
        .envs([("AGENTFLOW_OFFLINE", "1"), (INSIDE, "1")])
        .env_remove("AGENTFLOW_NO_SKIP")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors.matches("skipped: AGENTFLOW_OFFLINE is set\n").count(), 3, "{errors}");
}
