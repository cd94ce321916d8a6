//! Volumes that are full or read-only. They are mounted in a mount namespace. If this is not allowed, the tests report it.

use std::{process::Command, sync::Arc};

use super::{HubFixture, fault, process};
use crate::servers::{Answer, Effect, Request, contents::recipe};

fn can_mount() -> bool {
    let mounted = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-ec", "mount -t tmpfs -o size=1m none /mnt"])
        .output();
    let can = mounted.is_ok_and(|output| output.status.success());
    if !can {
        longboat_golden::skipped("no user namespace to mount a small volume in");
    }
    can
}

/// Fetches onto a volume with these mount options. Returns the message and the files on the volume afterwards.
async fn onto(pairs: [String; 2], variables: Vec<(String, String)>, options: &str) -> (String, String) {
    onto_while(pairs, variables, options, "true").await
}

/// Like [`onto`], while a shell command runs in the volume.
async fn onto_while(
    pairs: [String; 2],
    variables: Vec<(String, String)>,
    options: &str,
    meanwhile: &str,
) -> (String, String) {
    let to = pairs[1].clone();
    let (options, meanwhile, listing) = (options.to_owned(), meanwhile.to_owned(), format!("{to}.listing"));
    let output = tokio::task::spawn_blocking(move || {
        // The volume disappears with the namespace, so a child process inside the namespace lists the files.
        let script = format!(
            "mkdir -p {to}; mount -t tmpfs -o {options} none {to}; (sleep 6; find {to} -type f -printf '%P\\n' > {to}.listing) &"
        );
        let script = format!("{script} (cd {to}; {meanwhile}) &");
        let script = format!("{script} true");
        process(&pairs, variables, Some(&script)).output().unwrap()
    })
    .await
    .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let message = text.lines().find_map(|line| Some(line.split_once("failed: ")?.1.to_owned())).unwrap();
    for _ in 0..100 {
        if std::fs::exists(&listing).unwrap() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    (message, std::fs::read_to_string(listing).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn too_little_space_is_said_before_the_first_byte() {
    if !can_mount() {
        return;
    }
    let world = HubFixture::with_model(recipe("large", 20 << 20)).await;
    let to = world.folder.path().join("m").display().to_string();
    let (message, left) = onto(["hf://org/m".into(), to], world.variables(&[]), "size=8m").await;
    assert!(message.starts_with("not enough space in "), "{message}");
    assert!(!left.contains("config.json") && !left.contains("w.safetensors"), "{left}");
    assert!(world.requests().iter().all(|request| request.server != "cdn"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_file_that_does_not_fit_leaves_nothing_under_a_final_name() {
    if !can_mount() {
        return;
    }
    longboat_tls::install_default_provider();
    let servers = Arc::new(crate::servers::Servers::default());
    let content = Arc::new(recipe("large", 20 << 20));
    let address = servers.serve("web", Arc::new(move |_: &Request| Answer::file(&content))).await;
    let dir = tempfile::tempdir().unwrap();
    for (what, expected) in [
        (Effect::default(), "not enough space in "),
        (
            Effect { no_length: true, ..Effect::default() },
            "`w.bin` has no announced size, and did not end after ",
        ),
    ] {
        servers.faults.lock().push(fault("web", u64::MAX, what));
        let to = dir.path().join("m").display().to_string();
        let (message, left) = onto([format!("http://{address}/w.bin"), to], vec![], "size=8m").await;
        assert!(message.starts_with(expected), "{message}");
        assert!(!left.contains("w.bin") && !left.contains(".part"), "{left}");
        servers.faults.lock().clear();
        std::fs::remove_file(dir.path().join("m.listing")).unwrap();
    }
}

/// Another program fills the volume during the download.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_fills_up_leaves_nothing_under_a_final_name() {
    if !can_mount() {
        return;
    }
    let world = HubFixture::with_model(recipe("large", 12 << 20)).await;
    world.fault("cdn", u64::MAX, Effect { throttle: Some(4 << 20), ..Effect::default() });
    let to = world.folder.path().join("m").display().to_string();
    // Before the first byte, the download would find too little space.
    let begins = "until find . -name '*.part' -size +0 | grep -q .; do sleep 0.1; done";
    let meanwhile = format!("{begins}; head -c 10000000 /dev/zero > other");
    let variables = world.variables(&[]);
    let (message, left) = onto_while(["hf://org/m".into(), to], variables, "size=16m", &meanwhile).await;
    assert!(message.contains("No space left on device") && message.contains("w.safetensors"), "{message}");
    assert!(!left.contains("sub/w.safetensors"), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_cannot_be_written_to_is_named() {
    if !can_mount() {
        return;
    }
    let world = HubFixture::with_model(vec![1; 10]).await;
    let to = world.folder.path().join("m").display().to_string();
    let (message, _) = onto(["hf://org/m".into(), to.clone()], world.variables(&[]), "ro,size=8m").await;
    assert!(message.contains("Read-only file system") && message.contains(&to), "{message}");
}
