//! Downloads in processes that are killed, and the memory of a download.

use std::{
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Output,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use super::{HubFixture, fault, process};
use crate::servers::{Effect, Fault, contents::recipe, hub::File};

const SIZE: usize = 64 << 20;
/// The maximum resident memory of a download, in kB.
const MAX_RESIDENT: u64 = 64 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_download_goes_on_where_it_was() {
    let large = recipe("large", SIZE);
    let world = HubFixture::with_model(large.clone()).await;
    world.fault("cdn", u64::MAX, Effect { throttle: Some(30 << 20), ..Effect::default() });
    let to = world.folder.path().join("m");
    let pairs = ["hf://org/m".to_owned(), to.display().to_string()];
    // The process is killed at three random moments, so that a resumed download is killed as well.
    let stops = [1, 4, 7].map(|tenth| rand::random_range(SIZE * tenth / 10..SIZE * (tenth + 2) / 10));
    println!("killed when {stops:?} bytes were sent");
    for stop in stops {
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
    // Each kill loses the blocks that are not complete and the bytes in the sockets' buffers: more on a busy machine. If the last
    // download began anew, it would be at least 1.7 times the file.
    let sent = world.servers.sent.load(Relaxed);
    assert!(sent < (SIZE + SIZE / 2) as u64, "{sent} bytes were sent");
    let left: Vec<_> =
        std::fs::read_dir(to.join(".longboat")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_changed_on_the_disk_are_fetched_again() {
    let large = recipe("large", SIZE);
    let world = HubFixture::with_model(large.clone()).await;
    world.fault("cdn", u64::MAX, Effect { throttle: Some(30 << 20), ..Effect::default() });
    let to = world.folder.path().join("m");
    let mut child = process(&["hf://org/m".to_owned(), to.display().to_string()], world.variables(&[]), None)
        .spawn()
        .unwrap();
    let private = to.join(".longboat");
    while journaled(&private).iter().map(|block| block.end - block.start).sum::<u64>() < SIZE as u64 / 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Simulates a power failure: the journal lists a block that is not on the disk.
    let blocks = journaled(&private);
    let lost = blocks.iter().max_by_key(|block| block.end - block.start).unwrap();
    let length = lost.end - lost.start;
    let part = std::fs::File::options().write(true).open(&lost.part).unwrap();
    part.write_all_at(&vec![0; usize::try_from(length).unwrap()], lost.start).unwrap();
    world.servers.faults.lock().clear();
    let before = world.servers.sent.load(Relaxed);
    world.fetch("m", &[]).await.unwrap();
    assert!(world.read("m/sub/w.safetensors") == large);
    let sent = world.servers.sent.load(Relaxed) - before;
    let kept = blocks.iter().map(|block| block.end - block.start).sum::<u64>() - length;
    let missing = SIZE as u64 - kept;
    // Some parts are sent twice, at least in part: a connection that is not needed any more is closed with bytes in it.
    let limit = missing + SIZE as u64 / 4;
    assert!((missing..limit).contains(&sent), "{sent} bytes were sent, {missing} were missing");
}

/// A block of bytes that a journal lists as written.
struct Block {
    /// The path of the unfinished file.
    part: PathBuf,
    start: u64,
    end: u64,
}

/// Returns the blocks in the journals of a folder.
fn journaled(folder: &Path) -> Vec<Block> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let journals = entries.filter(|path| path.extension().is_some_and(|extension| extension == "journal"));
    journals.flat_map(|journal| blocks(&journal)).collect()
}

fn blocks(journal: &Path) -> Vec<Block> {
    let key = journal.file_stem().unwrap().to_str().unwrap();
    // The journal is replaced when a download begins, so it may be gone.
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let mut fields = line.strip_prefix("block ")?.split(' ');
        let part = journal.with_file_name(format!("{key}-{}.part", fields.next()?));
        Some(Block { part, start: fields.next()?.parse().ok()?, end: fields.next()?.parse().ok()? })
    });
    lines.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_does_not_grow_with_the_file() {
    let world = HubFixture::with_model(vec![7; 400 << 20]).await;
    let to = world.folder.path().join("m");
    let pairs = ["hf://org/m".to_owned(), to.display().to_string()];
    let output = process(&pairs, world.variables(&[]), None).output().unwrap();
    let peak = peak(&output);
    println!("peak of resident memory: {peak} kB");
    assert!(output.status.success() && peak < MAX_RESIDENT, "{peak} kB");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_does_not_grow_with_the_number_of_files() {
    let content = Arc::new(b"{}".to_vec());
    let file = |number| File {
        path: format!("part-{:03}/experts-{number:06}.json", number / 1000),
        content: content.clone(),
        lfs: false,
    };
    let world = HubFixture::with_files((0..100_000).map(file).collect()).await;
    // The memory is at its peak when all files have been compared with the folder. Downloading so many files would take
    // minutes, so the requests for files are refused.
    let refused = Effect { status: Some(403), ..Effect::default() };
    let path = Some(regex::Regex::new("/resolve/").unwrap());
    world.servers.faults.lock().push(Fault { path, ..fault("hub", u64::MAX, refused) });
    let to = world.folder.path().join("m");
    let pairs = ["hf://org/m".to_owned(), to.display().to_string()];
    // The test's hub is slow with such a long list.
    let patient = [("HF_HUB_DOWNLOAD_TIMEOUT", "120"), ("LONGBOAT_FETCH_PATIENCE", "300")];
    let output = process(&pairs, world.variables(&patient), None).output().unwrap();
    let peak = peak(&output);
    println!("peak of resident memory: {peak} kB");
    assert!(peak < MAX_RESIDENT, "{peak} kB");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("failed: Access denied"), "{text}");
    let requests = world.requests();
    assert!(
        requests.iter().filter(|request| request.path().contains("/tree/")).count() == 100,
        "the list was read"
    );
}

/// Returns the peak of a child's resident memory, in kB.
fn peak(output: &Output) -> u64 {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains("VmHWM")).unwrap();
    line.split_whitespace().rev().nth(1).unwrap().parse().unwrap()
}
