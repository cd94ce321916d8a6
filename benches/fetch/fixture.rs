//! The files to download, and their servers.

use std::{
    fs::File,
    io::Read,
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use crate::servers::{
    Servers,
    contents::{known_md5, known_parts, known_sha256, md5, recipe},
    hub::{self, Hub, Repository},
    store::{Store, Upload},
    web::{Page, Web},
};

const COMMIT: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// Size of the parts in which boto3 uploads a large file.
const PART: usize = 8 << 20;
/// Name of the large file on all servers.
pub(crate) const FILE: &str = "w.safetensors";

/// A hub with its CDN, S3 stores and a web server, all with the same large file. Hub and web server also have many small files.
pub(crate) struct StoreFixture {
    servers: Arc<Servers>,
    content: Arc<Vec<u8>>,
    files: Vec<hub::File>,
    pub(crate) hub: String,
    /// An S3 store with the file as boto3 uploads it: in parts, with the CRC-32 of each part.
    pub(crate) store: String,
    /// An S3 store with the file as an old client uploads it in one request: without a checksum.
    pub(crate) old_store: String,
    /// An S3 store with the file as an old client uploads it in parts: without a checksum.
    pub(crate) old_parts: String,
    pub(crate) web: String,
}

// === impl StoreFixture ===

impl StoreFixture {
    pub(crate) async fn start(size: usize, files: usize) -> Self {
        // A repeated block: sending and hashing it cost as much as any other content.
        let block = recipe("bench", 1 << 20);
        let content = Arc::new(block.repeat(size >> 20));
        // Computes the digests in advance, because that takes seconds that must not be measured.
        known_sha256(&content);
        known_md5(&content);
        known_parts(&content, PART);

        let (servers, hub) = (Arc::new(Servers::default()), Arc::new(Hub::default()));
        let mut files: Vec<_> = (0..files)
            .map(|number| hub::File {
                path: format!("part-{:03}/{number:05}.json", number % 100),
                content: Arc::new(recipe(&number.to_string(), 2 << 10)),
                lfs: false,
            })
            .collect();
        files.sort_by(|one: &hub::File, other| one.path.cmp(&other.path));
        let large = hub::File { path: FILE.into(), content: content.clone(), lfs: true };
        for (name, files) in [("org/large", vec![large]), ("org/many", files.clone())] {
            let repository = Repository {
                refs: [("main".into(), COMMIT.into())].into(),
                commits: [(COMMIT.into(), files)].into(),
                blobs: true,
                ..Repository::default()
            };
            hub.repositories.lock().insert(name.into(), repository);
        }
        let (answering, sending) = (hub.clone(), hub.clone());
        let endpoint = servers.serve("hub", Arc::new(move |request| answering.answer(request))).await;
        let cdn = servers.serve("cdn", Arc::new(move |request| sending.large(request))).await;
        *hub.cdn.lock() = format!("http://{cdn}");

        let store = |upload| {
            let bucket = [(format!("m/{FILE}"), content.clone())].into();
            let store = Store { buckets: [("b".into(), bucket)].into(), upload, ..Store::default() };
            servers.serve("s3", Arc::new(move |request| store.s3(request)))
        };
        let old_store = store(Upload::Whole).await;
        let old_parts = store(Upload::Parts(PART)).await;
        let store = store(Upload::Checked(PART)).await;
        let mut pages: std::collections::BTreeMap<_, _> =
            files.iter().map(|file| (format!("/{}", file.path), page(file.content.clone()))).collect();
        pages.insert(format!("/{FILE}"), page(content.clone()));
        let web = Web(pages);
        let web = servers.serve("web", Arc::new(move |request| web.answer(request))).await;
        let [hub, store, old_store, old_parts, web] =
            [endpoint, store, old_store, old_parts, web].map(|address| format!("http://{address}"));
        Self { servers, content, files, hub, store, old_store, old_parts, web }
    }

    /// Size of the large file in bytes.
    pub(crate) fn size(&self) -> usize {
        self.content.len()
    }

    /// Number of the small files.
    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }

    /// Paths of the small files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.path.as_str())
    }

    /// The time in which one thread computes the MD5 of the large file: the lower bound for a downloader that checks the MD5.
    pub(crate) fn floor_of_md5(&self) -> Duration {
        let start = Instant::now();
        std::hint::black_box(md5(&self.content));
        start.elapsed()
    }

    /// The number of body bytes that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.servers.sent.load(Relaxed)
    }

    /// The number of requests since the last call.
    pub(crate) fn requests(&self) -> usize {
        std::mem::take(&mut *self.servers.log.lock()).len()
    }

    /// Returns a share of the large file's size in bytes.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of gigabytes"
    )]
    pub(crate) fn bytes(&self, share: f64) -> u64 {
        (self.size() as f64 * share) as u64
    }

    /// Returns bytes as a multiple of the large file's size.
    #[expect(clippy::cast_precision_loss, reason = "a share of gigabytes")]
    pub(crate) fn share(&self, bytes: u64) -> f64 {
        bytes as f64 / self.size() as f64
    }

    /// Checks that the large file has arrived unchanged.
    pub(crate) fn check(&self, folder: &Path) {
        let mut file = File::open(folder.join(FILE)).unwrap();
        let mut buffer = vec![0; 1 << 20];
        for block in self.content.chunks(1 << 20) {
            file.read_exact(&mut buffer[..block.len()]).unwrap();
            assert!(buffer[..block.len()] == *block, "the content is another one");
        }
        assert_eq!(file.read(&mut buffer).unwrap(), 0, "the file is longer");
    }

    /// Checks that all small files have arrived unchanged.
    pub(crate) fn check_many(&self, folder: &Path) {
        for file in &self.files {
            assert!(std::fs::read(folder.join(&file.path)).unwrap() == *file.content, "{}", file.path);
        }
    }
}

fn page(content: Arc<Vec<u8>>) -> Page {
    Page::File { content, kind: "application/octet-stream".into() }
}
