//! S3, with moto, a server of `scripts/requirements.txt`.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
};

use longboat_fetch::FetchError;

use crate::Program;

struct Moto(Program);

// === impl Moto ===

impl Moto {
    /// Starts the server, if it is installed.
    fn start() -> Option<Self> {
        let arguments = |port: u16| ["-H", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned).to_vec();
        Program::start("moto_server", "python/bin", arguments).map(Self)
    }

    fn put(&self, path: &str, headers: &str, content: &[u8]) {
        let mut stream = TcpStream::connect(&self.0.address).unwrap();
        let host = &self.0.address;
        let signed = "Authorization: AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/s3/aws4_request\r\n";
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: {host}\r\n{signed}{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
            content.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(content).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// Uploads a file with boto3, which moto needs anyway. boto3 uploads large files in parts, each with a CRC-32.
fn upload(moto: &Moto, file: &Path, bucket: &str, key: &str) {
    let script = "import boto3, sys\nboto3.client('s3').upload_file(*sys.argv[1:])";
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/python/bin/python3");
    let python = if python.is_file() { python } else { "python3".into() };
    let output = std::process::Command::new(python)
        .args(["-c", script])
        .arg(file)
        .args([bucket, key])
        .envs([("AWS_ACCESS_KEY_ID", "AKIA"), ("AWS_SECRET_ACCESS_KEY", "secret")])
        .envs([
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", &format!("http://{}", moto.0.address)),
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

async fn fetch(moto: &Moto, uri: &str, to: &Path) -> Result<(), FetchError> {
    let endpoint = format!("http://{}", moto.0.address);
    let variables = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "AKIA"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    crate::fetch(uri, to, &variables).await
}

#[tokio::test]
async fn objects_of_a_real_server_arrive_as_they_are() {
    longboat_tls::install_default_provider();
    let Some(moto) = Moto::start() else { return };
    moto.put("/models", "", b"");
    // More files than one page of the listing, and a file with more than one part.
    for number in 0..1005 {
        moto.put(&format!("/models/many/{number:04}.txt"), "", number.to_string().as_bytes());
    }
    let large: Vec<u8> = (0..40 << 20).map(|at: u32| (at / 7919).to_le_bytes()[0]).collect();
    moto.put("/models/llama/w%20%2B%C3%BC.bin", "", &large);
    moto.put("/models/llama/config.json", "x-amz-checksum-algorithm: SHA256\r\n", b"{}\n");
    moto.put("/models/llama/empty.txt", "", b"");
    moto.put("/models/llama-2/other.txt", "", b"other");

    let dir = tempfile::tempdir().unwrap();
    fetch(&moto, "s3://models/llama", dir.path()).await.unwrap();
    assert!(std::fs::read(dir.path().join("w +ü.bin")).unwrap() == large);
    assert_eq!(std::fs::read(dir.path().join("config.json")).unwrap(), b"{}\n");
    assert_eq!(std::fs::read(dir.path().join("empty.txt")).unwrap(), b"");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4);
    fetch(&moto, "s3://models/llama", dir.path()).await.unwrap();

    let many = tempfile::tempdir().unwrap();
    fetch(&moto, "s3://models/many/", many.path()).await.unwrap();
    assert_eq!(std::fs::read_to_string(many.path().join("1004.txt")).unwrap(), "1004");
    assert_eq!(std::fs::read_dir(many.path()).unwrap().count(), 1006);

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("large");
    std::fs::write(&file, &large).unwrap();
    // moto reports the checksum of the parts as that of the content.
    upload(&moto, &file, "models", "parts/w.bin");
    let to = dir.path().join("m");
    fetch(&moto, "s3://models/parts", &to).await.unwrap();
    assert!(std::fs::read(to.join("w.bin")).unwrap() == large);

    for (uri, expected) in
        [("s3://none/x", "S3 resource 'none' not found."), ("s3://models/none", "No model found in none")]
    {
        let error = fetch(&moto, uri, dir.path()).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
