//! `flags.json`: the flags of `vllm serve`.

use longboat_golden::vllm::write_flags;

use crate::install::{Install, check};

const SCRIPT: &str = include_str!("flags.py");

#[tokio::test]
async fn the_recorded_flags_are_those_of_this_vllm() {
    let Some(install) = Install::find().await else { return };
    let output = install.python(SCRIPT).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Libraries print lines of their own before.
    let text = String::from_utf8(output.stdout).unwrap();
    let flags = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    check("flags.json", &write_flags(&install.version(), &flags));
}
