//! Model download into a folder: the storage initializer.
//!
//! The core is pure: addresses and server responses (`source/*_wire`, `*_list`, `*_manifest`), names, patterns, digests,
//! ranges, retries, and the journal's format. The other parts are one HTTP client (`http`), the target folder (`target`,
//! `ledger`, `archive`), and the downloads themselves (`transfer`, `file`, `writer`).
//!
//! The downloader keeps its state in the folder `.longboat` of the target: a journal for each source, and unfinished files. The
//! folder may be deleted at any time. Then files are verified instead of fetched if the source reports their digests, and
//! fetched again otherwise.
//!
//! The crate signs requests to S3 and Google Cloud Storage itself (`source/s3_sign.rs`, `*_credentials.rs`: 620 lines with tests).
//! `reqsign` 3 would replace them and add profiles with roles, SSO and `external_account`. It would also add 43 crates to the 525 of
//! the lock file (17 for S3 alone): a second SHA-2 and HMAC beside ring's, a second `quick-xml`, and `rsa`, whose timing leaks
//! the key (RUSTSEC-2023-0071, without a fix). It cannot be told the endpoint of STS, takes its region from `AWS_REGION` only,
//! and goes on to the next source of credentials after an error, so that an unreadable token file becomes "no credentials".

mod adapters;
mod archive;
mod block_writer;
mod blocking;
mod cache;
mod connections;
mod digest;
mod encode;
mod error;
mod failure;
mod file;
mod filter;
mod hosts;
mod http;
mod index;
mod inspect;
mod journal;
mod ledger;
mod local;
mod names;
mod progress;
mod progress_server;
mod ranges;
mod redirect;
mod remote;
mod retry;
mod settings;
mod source;
mod target;
mod transfer;
mod trust;
mod writer;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use longboat_download::{
    CACHE_VARIABLE, MODE_VARIABLE, PROGRESS_VARIABLE,
    address::{Address, Scheme},
};

pub use self::{
    adapters::{LoaderArgs, keep_adapters_loaded},
    cache::{Cache, CachedModel},
    error::{FetchError, Protocol},
    inspect::{SourceFiles, list_source, local_copy, read_head},
    progress::Watcher,
    settings::Settings,
};
use self::{blocking::blocking, ledger::Ledger, progress::Counters, target::Target, transfer::Transfer};

/// Parsers of untrusted data, for the fuzz targets.
#[doc(hidden)]
pub mod parsers {
    pub use longboat_download::{Progress, adapters::parse_report, address::Address};

    pub use crate::{
        adapters::{MAX_WORDS, parse_list, parse_models, words},
        archive::{Problem, TarKind, TarReader, ZipEntry, zip_directory},
        filter::{Filter, matches},
        http::content_range,
        journal::{FileRecord, Journal},
        names::check,
        source::{
            Challenge, Layers, Manifest, Model, Page, Tree, gcs_objects, oci_image, s3_bucket, s3_parts,
        },
    };
}

const USAGE: &str = "Usage: storage-initializer SOURCE DEST [SOURCE DEST ...]";

/// Pairs of `SOURCE DEST`: a model and its adapters.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Address of the model and folder to download it to; repeatable. Addresses: `hf://OWNER/MODEL[:REVISION]`,
    /// `s3://BUCKET/KEY`, `gs://BUCKET/PATH`, `https://HOST/FILE`, `oci://REGISTRY/REPOSITORY[:TAG]`, `file://PATH`, or a
    /// path
    #[arg(value_names = ["SOURCE", "DEST"], num_args = 0..)]
    pub pairs: Vec<String>,
    /// `skip`: download nothing, because the engine reads no weights; `cache`: keep downloads in the cache of this machine;
    /// `offline`: read the cache, and download nothing
    #[arg(long, env = MODE_VARIABLE, hide = true)]
    pub mode: Option<String>,
}

/// The maximum number of threads for the disk and for digests. Each thread needs some memory, and the runtime would start more
/// and more threads if they were slow to start working. At most 64 files arrive at the same time, and each has one thread that
/// waits for its bytes. The remaining threads write the bytes.
const MAX_BLOCKING_THREADS: usize = 96;

/// Creates the runtime of downloads: one thread for all network I/O, and further threads for the disk and for digests. With one
/// network thread, received data is freed on the thread that allocated it. With several threads, the allocator would keep a
/// hundred megabytes of freed memory.
///
/// # Errors
///
/// If the system lacks the resources.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .enable_all()
        .build()
}

/// Downloads each source to its destination, one after the other, with the settings of the environment. Without a watcher, the
/// progress is logged.
pub async fn run(args: Args, watcher: Option<Watcher>) -> Result<(), FetchError> {
    run_with(args, &Settings::from_environment()?, watcher).await
}

/// Like [`run`], with other settings.
pub async fn run_with(args: Args, settings: &Settings, watcher: Option<Watcher>) -> Result<(), FetchError> {
    let (pairs, rest) = args.pairs.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        let _ = writeln!(std::io::stdout(), "{USAGE}");
        return Err(FetchError::Usage);
    }
    let pairs: Vec<(Address, &str)> =
        pairs.iter().map(|[source, to]| (Address::parse(source), to.as_str())).collect();
    if args.mode.as_deref() == Some("skip") {
        for (source, _) in &pairs {
            tracing::info!(%source, "Downloaded no weights, because the engine is a simulator and reads \
                                     none.");
        }
        return Ok(());
    }
    let shown: Vec<String> = pairs.iter().map(|(source, to)| format!("('{source}', '{to}')")).collect();
    tracing::info!("Initializing, args: (src_uri, dest_path): [{}]", shown.join(", "));
    if settings.is_on("CONFIDENTIAL_ENABLED") {
        return Err(FetchError::setting(
            "CONFIDENTIAL_ENABLED",
            "encrypted models are not supported; use the platform's own storage initializer for them",
        ));
    }
    for (_, destination) in pairs.iter().filter(|(_, destination)| !destination.is_empty()) {
        std::fs::create_dir_all(destination).map_err(FetchError::file("create", destination))?;
    }

    let settings = &match args.mode.as_deref() {
        Some("offline") => settings.offline(),
        Some("cache") => settings.attended(),
        _ => settings.clone(),
    };
    let cache = match args.mode.as_deref() {
        Some("cache" | "offline") => Cache::of(settings),
        _ => settings.get(CACHE_VARIABLE).map(Cache::at),
    };
    let counters = Arc::new(Counters::default());
    let file = settings.get(PROGRESS_VARIABLE).map(PathBuf::from);
    let port = progress_server::port(settings)?;
    let serving = async {
        match port {
            Some(port) => progress_server::serve(port, &counters).await,
            None => std::future::pending().await,
        }
    };
    let all = async {
        for (source, destination) in &pairs {
            download(source, destination, settings, cache.as_ref(), &counters).await?;
        }
        Ok(())
    };
    let result = tokio::select! {
        result = all => result,
        () = counters.report(watcher.as_ref(), file.as_deref()) => Ok(()),
        () = serving => Ok(()),
    };
    counters.report_end(watcher.as_ref(), file.as_deref());
    result
}

/// Downloads a model into the cache of this machine, or checks the copy there. A model of the folder `LONGBOAT_MODELS` is not
/// downloaded. Returns the model's folder or file.
pub async fn pull(
    source: &Address,
    settings: &Settings,
    watcher: Option<Watcher>,
) -> Result<PathBuf, FetchError> {
    let settings = settings.attended();
    if let Some(path) = local::path_of(source, &settings)? {
        return Ok(path);
    }
    let cache = Cache::of(&settings).ok_or_else(|| {
        FetchError::setting(
            CACHE_VARIABLE,
            "it is not set, and neither is HOME: expected the folder that keeps models",
        )
    })?;
    let folder = cache.folder(source, &settings.filter().key())?;
    let counters = Arc::new(Counters::default());
    let result = tokio::select! {
        result = download_remote(source, &folder, &settings, &counters) => result,
        () = counters.report(watcher.as_ref(), None) => Ok(()),
    };
    counters.report_end(watcher.as_ref(), None);
    result.map(|()| folder)
}

async fn download(
    source: &Address,
    destination: &str,
    settings: &Settings,
    cache: Option<&Cache>,
    counters: &Arc<Counters>,
) -> Result<(), FetchError> {
    if destination.is_empty() {
        return Err(FetchError::address(source, "its destination is empty"));
    }
    let start = Instant::now();
    // Alerts and log filters match these lines of the reference, so their texts contain the values.
    tracing::info!("Copying contents of {source} to local");
    let filter = settings.filter();
    for (what, patterns) in ["Allow", "Ignore"].into_iter().zip(filter.shown()) {
        if let Some(patterns) = patterns {
            tracing::info!("{what} patterns: {patterns}");
        }
    }
    if let Some(path) = local::path_of(source, settings)? {
        let destination = PathBuf::from(destination);
        blocking(move || local::link(&path, &destination, &filter)).await?;
    } else if source.scheme() == Scheme::Absent && source.rest().starts_with("/mnt/models") {
        tracing::info!(%source, "Downloaded nothing, because this is the folder of mounted models.");
    } else if let Some(cache) = cache {
        let folder = cache.folder(source, &filter.key())?;
        download_remote(source, &folder, settings, counters).await?;
        let destination = PathBuf::from(destination);
        blocking(move || cache::share(&folder, &destination)).await?;
    } else {
        download_remote(source, Path::new(destination), settings, counters).await?;
    }
    tracing::info!("Successfully copied {source} to {destination}");
    tracing::info!("Model downloaded in {:.3} seconds.", start.elapsed().as_secs_f64());
    Ok(())
}

async fn download_remote(
    address: &Address,
    folder: &Path,
    settings: &Settings,
    counters: &Arc<Counters>,
) -> Result<(), FetchError> {
    let source = source::start(address, settings)?;
    let (path, shown) = (folder.to_owned(), address.to_string());
    let name = shown.clone();
    let (target, ledger) = blocking(move || {
        let target = Target::open(&path)?;
        let ledger = Ledger::open(&target, &name)?;
        Ok((target, ledger))
    })
    .await?;
    let transfer = Transfer {
        source,
        target: Arc::new(target),
        ledger: Arc::new(ledger),
        counters: counters.clone(),
        filter: settings.filter(),
        offline: settings.is_offline(),
        retries: settings.retry_policy()?,
        uri: shown,
    };
    transfer.run().await
}
