//! `flags.json`: the flags of `vllm serve`.

use longboat_golden::vllm::{parse, write_flags};

use crate::install::{Install, check};

#[tokio::test]
async fn the_recorded_flags_are_those_of_this_vllm() {
    let Some(install) = Install::find().await else { return };
    let output = install.command().args(["serve", "--help=all"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let flags = parse(&String::from_utf8(output.stdout).unwrap());
    check("flags.json", &write_flags(&install.version(), &flags));
}
