//! Downloads in processes that are killed, and the memory of a download.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use super::{World, process};
use crate::servers::{What, contents::recipe};

const SIZE: usize = 64 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_download_goes_on_where_it_was() {
    let large = recipe("large", SIZE);
    let world = World::with_model(large.clone()).await;
    world.fault("cdn", u64::MAX, What { throttle: Some(30 << 20), ..What::default() });
    let to = world.folder.path().join("m");
    let pairs = ["hf://org/m".to_owned(), to.display().to_string()];
    // The process is killed at three moments, so that a resumed download is killed as well.
    for stop in [SIZE / 5, SIZE / 2, SIZE * 3 / 4] {
        let mut child = process(&pairs, world.variables(&[]), None).spawn().unwrap();
        while world.servers.sent.load(Relaxed) < stop as u64 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!to.join("sub/w.safetensors").exists(), "an unfinished file has its final name");
    }
    world.servers.faults.lock().clear();
    world.fetch("m", &[]).await.unwrap();
    assert!(world.read("m/sub/w.safetensors") == large);
    // Each kill loses at most the blocks of the two parts in progress, and the bytes in the sockets' buffers.
    let sent = world.servers.sent.load(Relaxed);
    assert!(sent < (SIZE + 3 * (6 << 20)) as u64, "{sent} bytes were sent");
    let left: Vec<_> =
        std::fs::read_dir(to.join(".longboat")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_changed_on_the_disk_are_fetched_again() {
    let large = recipe("large", SIZE);
    let world = World::with_model(large.clone()).await;
    world.fault("cdn", u64::MAX, What { throttle: Some(30 << 20), ..What::default() });
    let to = world.folder.path().join("m");
    let mut child = process(&["hf://org/m".to_owned(), to.display().to_string()], world.variables(&[]), None)
        .spawn()
        .unwrap();
    while world.servers.sent.load(Relaxed) < SIZE as u64 / 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Simulates a power failure: the journal lists a block that is not on the disk.
    let entries = std::fs::read_dir(to.join(".longboat")).unwrap().map(|entry| entry.unwrap().path());
    let part = entries.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "part"));
    let part = part.unwrap();
    let mut content = std::fs::read(&part).unwrap();
    content[100_000..200_000].fill(0);
    std::fs::write(&part, content).unwrap();
    world.servers.faults.lock().clear();
    let before = world.servers.sent.load(Relaxed);
    world.fetch("m", &[]).await.unwrap();
    assert!(world.read("m/sub/w.safetensors") == large);
    assert!(world.servers.sent.load(Relaxed) - before < SIZE as u64 * 2 / 3, "the rest was enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_does_not_grow_with_the_file() {
    let world = World::with_model(vec![7; 400 << 20]).await;
    let to = world.folder.path().join("m");
    let pairs = ["hf://org/m".to_owned(), to.display().to_string()];
    let output = process(&pairs, world.variables(&[]), None).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let line = text.lines().find(|line| line.contains("VmHWM")).unwrap();
    let peak: u64 = line.split_whitespace().rev().nth(1).unwrap().parse().unwrap();
    println!("peak of resident memory: {peak} kB");
    assert!(peak < 64 << 10, "{peak} kB");
}
