//! Models that are already on this machine: in the downloader's cache, or in the cache of the hub's own client.

use std::{os::unix::fs::MetadataExt, sync::atomic::Ordering::Relaxed};

use longboat_download::{Progress, address::Address};
use longboat_fetch::{Cache, FetchError, Settings};

use super::{COMMIT, HubFixture};
use crate::servers::{
    Effect,
    contents::{git_blob, recipe, sha256},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_model_is_shared_listed_used_offline_and_removed() {
    let large = recipe("large", 3 << 20);
    let world = HubFixture::with_model(large.clone()).await;
    let root = world.folder.path().join("cache").display().to_string();
    let cached = [("LONGBOAT_CACHE", root.as_str())];
    world.fetch("first", &cached).await.unwrap();
    let sent = world.servers.sent.load(Relaxed);
    world.fetch("second", &cached).await.unwrap();
    assert!(world.servers.sent.load(Relaxed) - sent < 1000, "only the list was sent");
    assert!(world.read("second/sub/w.safetensors") == large);
    assert!(!world.folder.path().join("second/.longboat").exists());
    let inode =
        |folder: &str| world.folder.path().join(folder).join("sub/w.safetensors").metadata().unwrap().ino();
    assert_eq!(inode("first"), inode("second"));

    world.requests();
    let offline = [("LONGBOAT_CACHE", root.as_str()), ("HF_HUB_OFFLINE", "1")];
    world.fetch("third", &offline).await.unwrap();
    // An unreachable hub has the same effect as offline mode: all cached files can be verified.
    world.fault("hub", u64::MAX, Effect { status: Some(503), ..Effect::default() });
    let impatient = [cached[0], ("LONGBOAT_FETCH_PATIENCE", "1")];
    world.fetch("fourth", &impatient).await.unwrap();
    assert!(
        world.read("third/sub/w.safetensors") == large && world.read("fourth/sub/w.safetensors") == large
    );

    let cache = Cache::at(&root);
    let models = cache.list().unwrap();
    assert_eq!((models.len(), models[0].source.as_str(), models[0].files), (1, "hf://org/m", 2));
    assert!(models[0].complete && models[0].bytes > 3 << 20);
    // A damaged file is not accepted offline.
    let path = models[0].folder.join("sub/w.safetensors");
    let mut content = std::fs::read(&path).unwrap();
    content[5] ^= 1;
    std::fs::write(&path, content).unwrap();
    assert!(matches!(world.fetch("fifth", &offline).await, Err(FetchError::Offline { .. })));
    let odd = world.folder.path().join("cache/odd/.longboat/x.journal");
    std::fs::create_dir_all(&odd).unwrap();
    assert!(cache.list().unwrap_err().to_string().contains("cache/odd"));
    std::fs::remove_dir_all(world.folder.path().join("cache/odd")).unwrap();
    assert!(cache.remove("hf://org/other").unwrap().is_empty());
    assert_eq!(cache.remove("hf://org/m").unwrap().len(), 1);
    assert!(cache.list().unwrap().is_empty());
    assert!(world.folder.path().join("third/sub/w.safetensors").exists(), "services keep what they have");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_hubs_own_cache_has_is_not_sent() {
    let large = recipe("large", 3 << 20);
    let world = HubFixture::with_model(large.clone()).await;
    let cache = world.folder.path().join("hub");
    let model = cache.join("models--org--m");
    std::fs::create_dir_all(model.join("blobs")).unwrap();
    let blob = model.join("blobs").join(sha256(&large));
    std::fs::write(&blob, &large).unwrap();
    let cache = cache.display().to_string();
    let settings = [("HF_HUB_CACHE", cache.as_str())];
    world.fetch("first", &settings).await.unwrap();
    assert!(world.read("first/sub/w.safetensors") == large);
    assert!(world.requests().iter().all(|request| request.server != "cdn"));

    // A damaged blob of the hub's cache is not used.
    std::fs::write(&blob, vec![0; large.len()]).unwrap();
    world.fetch("second", &settings).await.unwrap();
    assert!(world.read("second/sub/w.safetensors") == large);

    // Offline, the files of the snapshot are the listing.
    std::fs::write(&blob, &large).unwrap();
    let snapshot = model.join("snapshots").join(COMMIT);
    std::fs::create_dir_all(snapshot.join("sub")).unwrap();
    std::fs::create_dir_all(model.join("refs")).unwrap();
    std::fs::write(model.join("refs/main"), COMMIT).unwrap();
    let small = model.join("blobs").join(git_blob(b"{}\n"));
    std::fs::write(&small, b"{}\n").unwrap();
    std::os::unix::fs::symlink(&blob, snapshot.join("sub/w.safetensors")).unwrap();
    std::os::unix::fs::symlink(&small, snapshot.join("config.json")).unwrap();
    world.requests();
    world.fetch("third", &[settings[0], ("HF_HUB_OFFLINE", "1")]).await.unwrap();
    assert!(world.read("third/sub/w.safetensors") == large && world.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_in_a_file_that_others_can_read() {
    let world = HubFixture::with_model(recipe("large", 3 << 20)).await;
    let file = world.folder.path().join("progress");
    let name = file.display().to_string();
    world.fetch("m", &[("LONGBOAT_FETCH_PROGRESS", &name)]).await.unwrap();
    let progress = Progress::read(std::fs::File::open(&file).unwrap()).unwrap();
    assert_eq!((progress.files_done, progress.bytes_done), (2, (3 << 20) + 3));
    assert_eq!(progress.bytes, progress.bytes_done);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_head_of_a_file_is_read_without_the_rest_and_a_pull_fills_the_cache() {
    let large = recipe("large", 12 << 20);
    let world = HubFixture::with_model(large.clone()).await;
    let settings = Settings::new(world.variables(&[])).unwrap();
    let model = Address::parse("hf://org/m");
    for (file, limit, expected) in [
        ("sub/w.safetensors", 1000, &large[..1000]),
        // A file may be shorter than what is asked for.
        ("config.json", 1000, b"{}\n"),
    ] {
        let head = longboat_fetch::read_head(&model, file, limit, &settings).await.unwrap();
        assert!(head == expected, "{file}: {} bytes", head.len());
    }
    let ranges: Vec<_> =
        world.requests().iter().filter_map(|request| request.header("range").map(str::to_owned)).collect();
    assert!(ranges.contains(&"bytes=0-999".to_owned()), "{ranges:?}");
    let missing = longboat_fetch::read_head(&model, "other", 1, &settings).await.unwrap_err();
    assert!(matches!(missing, FetchError::Empty { .. }), "{missing}");

    let only = settings.with("STORAGE_ALLOW_PATTERNS", "*.json");
    let folder = longboat_fetch::pull(&model, &only, None).await.unwrap();
    assert_eq!(std::fs::read(folder.join("config.json")).unwrap(), b"{}\n");
    assert!(!folder.join("sub").exists());
    assert_eq!(longboat_fetch::local_copy(&model, &only).unwrap(), Some(folder));
    let none = settings.with("STORAGE_ALLOW_PATTERNS", "*Q5*");
    let error = longboat_fetch::pull(&model, &none, None).await.unwrap_err().to_string();
    assert!(error.contains("`*Q5*` selects none of its files, which are config.json, sub/w.saf"), "{error}");
    // The whole model is another entry of the cache.
    assert_eq!(longboat_fetch::local_copy(&model, &settings).unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_cannot_be_downloaded_is_not_in_the_cache_and_one_of_the_models_folder_is_not_pulled() {
    let world = HubFixture::with_model(recipe("large", 1 << 20)).await;
    let root = world.folder.path().join("cache").display().to_string();
    world.fault("hub", u64::MAX, Effect { status: Some(404), ..Effect::default() });
    let refused = world.fetch("first", &[("LONGBOAT_CACHE", root.as_str())]).await;
    assert!(refused.is_err());
    assert_eq!(Cache::at(&root).list().unwrap(), []);

    world.requests();
    let models = world.folder.path().join("models");
    std::fs::create_dir_all(models.join("m")).unwrap();
    let folder = models.display().to_string();
    let variables = [("LONGBOAT_CACHE", root.as_str()), ("LONGBOAT_MODELS", folder.as_str())];
    let settings = Settings::new(world.variables(&variables)).unwrap();
    let folder = longboat_fetch::pull(&Address::parse("hf://org/m"), &settings, None).await.unwrap();
    assert_eq!(folder, models.join("m"));
    assert!(world.requests().is_empty());
}
