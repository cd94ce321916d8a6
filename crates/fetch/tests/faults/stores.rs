//! Objects of stores that were uploaded in parts.

use std::sync::Arc;

use longboat_fetch::FetchError;

use crate::{
    fault, fetch,
    servers::{
        Effect, Fault, Servers,
        contents::recipe,
        store::{Store, Upload},
    },
};

const MIB: usize = 1 << 20;

/// A store with the object `m/w.bin`, and a folder to fetch it to.
struct Bucket {
    servers: Arc<Servers>,
    address: String,
    folder: tempfile::TempDir,
}

// === impl Bucket ===

impl Bucket {
    async fn with(content: &[u8], upload: Upload) -> Self {
        longboat_tls::install_default_provider();
        let servers = Arc::new(Servers::default());
        let objects = [("m/w.bin".to_owned(), Arc::new(content.to_vec()))];
        let store = Store { buckets: [("b".into(), objects.into())].into(), upload, ..Store::default() };
        let address = servers.serve("s3", Arc::new(move |request| store.s3(request))).await;
        let address = format!("http://{address}");
        Self { servers, address, folder: tempfile::tempdir().unwrap() }
    }

    async fn fetch(&self) -> Result<(), FetchError> {
        let variables = [
            ("AWS_ENDPOINT_URL", self.address.as_str()),
            ("AWS_ACCESS_KEY_ID", "k"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("LONGBOAT_FETCH_PATIENCE", "5"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let pairs = ["s3://b/m".to_owned(), self.folder.path().display().to_string()];
        fetch(&pairs, variables).await
    }

    /// Adds a fault for the requests with this method and address.
    fn fault(&self, method: &str, address: &str, fault: Fault) {
        let path = Some(regex::Regex::new(address).unwrap());
        self.servers.faults.lock().push(Fault { method: Some(method.into()), path, ..fault });
    }

    fn content(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("w.bin")).unwrap()
    }

    /// Requests for the headers of single parts.
    fn asked_for_parts(&self) -> usize {
        self.servers.log.lock().iter().filter(|request| request.query("partNumber").is_some()).count()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_in_parts_are_checked() {
    let content = recipe("parts", 20 * MIB);
    for upload in [Upload::Parts(8 * MIB), Upload::Checked(8 * MIB), Upload::Checked(20 * MIB)] {
        let bucket = Bucket::with(&content, upload).await;
        // A bit changes on the way in each of the first two downloads. Only a digest can show it.
        let corrupt = Effect { corrupt: Some(9 * MIB), ..Effect::default() };
        bucket.fault("GET", "w.bin$", fault("s3", 2, corrupt));
        bucket.fetch().await.unwrap();
        assert!(bucket.content() == content, "{upload:?}");
        let whole = bucket.servers.log.lock().iter().filter(|request| request.method == "GET").count();
        assert_eq!(whole, 1 + 3, "{upload:?}: the list, and the object three times");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_different_sizes_are_no_reason_to_refuse_an_object() {
    let content = recipe("parts", 20 * MIB);
    // The second part is smaller than the first one, so the size of the first part says nothing about the others.
    let bucket = Bucket::with(&content, Upload::Parts(8 * MIB)).await;
    let headers = vec![("Content-Length".to_owned(), (7 * MIB).to_string())];
    let odd = Effect { status: Some(206), headers, ..Effect::default() };
    bucket.fault("HEAD", "partNumber=2", fault("s3", 1, odd));
    bucket.fetch().await.unwrap();
    assert!(bucket.content() == content);
    assert_eq!(bucket.asked_for_parts(), 2);
    // A store that does not know parts answers with the whole object.
    let bucket = Bucket::with(&content, Upload::Parts(8 * MIB)).await;
    let headers = vec![("Content-Length".to_owned(), (20 * MIB).to_string())];
    let whole = Effect { status: Some(200), headers, ..Effect::default() };
    bucket.fault("HEAD", "partNumber=", fault("s3", 9, whole));
    bucket.fetch().await.unwrap();
    assert!(bucket.content() == content);
    assert_eq!(bucket.asked_for_parts(), 1);
}
