//! The handshake of two engines before blocks are transferred.
//!
//! The engine that has the blocks sends `Hello`. The other engine sends `TransferRequest` with a proof that it knows the secret. The
//! first engine sends `Answer` with its own proof, and then the numbers of the blocks. The other engine sends `TransferAck` when
//! it has received them. Each message is JSON after its length in four bytes.

use std::io;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::hmac;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::config::Token;

/// The version of this protocol.
const PROTOCOL: u32 = 1;
/// The longest message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The shape of an engine's blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    /// The digest of the model's weights.
    pub(crate) model: String,
    /// The format of the numbers.
    pub(crate) numbers: String,
    pub(crate) block_tokens: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) head_width: usize,
}

/// The first message, from the engine that has the blocks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) protocol: u32,
    /// The engine's id. It is new at each start.
    pub(super) engine: String,
    nonce: String,
}

/// The request for blocks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TransferRequest {
    nonce: String,
    proof: String,
    pub(super) shape: Shape,
    /// The id of the transfer.
    pub(super) request: String,
    /// The hash of the prompt's tokens.
    pub(super) prompt: u64,
}

/// The answer to the request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// This many blocks follow.
    Granted { proof: String, blocks: usize },
    /// The reason of the refusal.
    Refused { reason: String },
}

/// The last message: the blocks have arrived.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TransferAck {
    pub(super) blocks: usize,
}

/// The secret as a key for proofs.
pub(super) struct Key(hmac::Key);

// === impl Shape ===

impl Shape {
    /// Returns why blocks of this shape cannot be used with the other shape. Returns `None` if they can.
    pub(super) fn mismatch(&self, other: &Self) -> Option<String> {
        let Self { model, numbers, block_tokens, layers, heads, head_width } = self;
        let differ = |what: &str, ours: &dyn std::fmt::Display, theirs: &dyn std::fmt::Display| {
            Some(format!("{what} differ: {ours} here, {theirs} at the other engine"))
        };
        if *layers != other.layers {
            return differ("the numbers of layers", layers, &other.layers);
        }
        if (*heads, *head_width) != (other.heads, other.head_width) {
            let pair = |heads: usize, width: usize| format!("{heads} of {width} numbers");
            return differ("the KV heads", &pair(*heads, *head_width), &pair(other.heads, other.head_width));
        }
        if numbers != &other.numbers {
            return differ("the number formats", numbers, &other.numbers);
        }
        if *block_tokens != other.block_tokens {
            return differ("the tokens of a block (--block-size)", block_tokens, &other.block_tokens);
        }
        if model != &other.model {
            return differ("the models' weights", model, &other.model);
        }
        None
    }
}

// === impl Key ===

impl Key {
    pub(super) fn new(token: &Token) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, token.0.as_bytes()))
    }

    fn proof(&self, message: &str, first: &str, second: &str) -> String {
        // The kind of message tells the directions apart, so that a proof cannot be sent back to the engine that has made it.
        HEXLOWER.encode(hmac::sign(&self.0, format!("{message} {first} {second}").as_bytes()).as_ref())
    }

    fn verify_proof(&self, proof: &str, message: &str, first: &str, second: &str) -> bool {
        let Ok(proof) = HEXLOWER_PERMISSIVE.decode(proof.as_bytes()) else { return false };
        hmac::verify(&self.0, format!("{message} {first} {second}").as_bytes(), &proof).is_ok()
    }

    /// Creates a request for blocks.
    pub(super) fn request(
        &self,
        hello: &Hello,
        shape: Shape,
        request: String,
        prompt: u64,
    ) -> TransferRequest {
        let nonce = nonce();
        let proof = self.proof("ask", &hello.nonce, &nonce);
        TransferRequest { nonce, proof, shape, request, prompt }
    }

    /// Whether the sender of the request knows the secret.
    pub(super) fn verify_request(&self, hello: &Hello, request: &TransferRequest) -> bool {
        self.verify_proof(&request.proof, "ask", &hello.nonce, &request.nonce)
    }

    /// Creates the answer that grants a request.
    pub(super) fn grant(&self, hello: &Hello, request: &TransferRequest, blocks: usize) -> Answer {
        Answer::Granted { proof: self.proof("grant", &request.nonce, &hello.nonce), blocks }
    }

    /// Whether the sender of the answer knows the secret.
    pub(super) fn verify_grant(&self, hello: &Hello, request_nonce: &str, proof: &str) -> bool {
        self.verify_proof(proof, "grant", request_nonce, &hello.nonce)
    }
}

// === impl Hello ===

impl Hello {
    pub(super) fn new(engine: &str) -> Self {
        Self { protocol: PROTOCOL, engine: engine.to_owned(), nonce: nonce() }
    }

    pub(super) fn mismatch(&self) -> Option<String> {
        (self.protocol != PROTOCOL).then(|| {
            format!(
                "it uses version {} of the transfer protocol, but this engine uses {PROTOCOL}",
                self.protocol
            )
        })
    }
}

// === impl TransferRequest ===

impl TransferRequest {
    pub(super) fn nonce(&self) -> &str {
        &self.nonce
    }
}

/// Writes a message.
pub(super) async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend(text);
    stream.write_all(&frame).await
}

/// Reads a message.
pub(super) async fn receive<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<T> {
    let length = stream.read_u32_le().await? as usize;
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::other(format!("a message of {length} bytes, more than {MAX_MESSAGE_BYTES}")));
    }
    let mut text = vec![0; length];
    stream.read_exact(&mut text).await?;
    read(&text).map_err(io::Error::other)
}

fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| format!("an invalid message: {error}"))
}

/// Parses a message as every type of message, for the fuzz target.
pub(crate) fn probe(bytes: &[u8]) {
    let key = Key::new(&Token("a secret for nothing".into()));
    let hello = read::<Hello>(bytes).unwrap_or_else(|_| Hello::new("e"));
    let _ = hello.mismatch();
    if let Ok(request) = read::<TransferRequest>(bytes) {
        assert!(!key.verify_request(&hello, &request), "a proof was made without the secret");
        let _ = request.shape.mismatch(&request.shape);
    }
    let _ = (read::<Answer>(bytes), read::<TransferAck>(bytes));
    let _ = String::from_utf8_lossy(bytes).parse::<super::KvTransferConfig>();
}

fn nonce() -> String {
    format!("{:032x}", rand::random::<u128>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape {
            model: "1f".into(),
            numbers: "f32".into(),
            block_tokens: 16,
            layers: 2,
            heads: 3,
            head_width: 64,
        }
    }

    #[test]
    fn requests_and_grants_need_the_secret() {
        let key = |secret: &str| Key::new(&Token(secret.into()));
        let (ours, other) = (key("one secret"), key("another secret"));
        let hello = Hello::new("e");
        let request = ours.request(&hello, shape(), "r".into(), 7);
        assert!(ours.verify_request(&hello, &request) && !other.verify_request(&hello, &request));
        assert!(!ours.verify_request(&Hello::new("e"), &request), "a proof is good for one connection");
        let Answer::Granted { proof, .. } = ours.grant(&hello, &request, 1) else { panic!() };
        assert!(ours.verify_grant(&hello, request.nonce(), &proof));
        assert!(!other.verify_grant(&hello, request.nonce(), &proof));
        assert!(!ours.verify_grant(&hello, request.nonce(), &request.proof), "a proof cannot be sent back");
    }

    #[test]
    fn shapes_that_differ_are_described_in_a_sentence() {
        assert_eq!(shape().mismatch(&shape()), None);
        let other = Shape { model: "2e".into(), ..shape() };
        let words = shape().mismatch(&other);
        assert_eq!(words.as_deref(), Some("the models' weights differ: 1f here, 2e at the other engine"));
        let other = Shape { block_tokens: 32, ..shape() };
        let words = "the tokens of a block (--block-size) differ: 16 here, 32 at the other engine";
        assert_eq!(shape().mismatch(&other).as_deref(), Some(words));
    }

    #[tokio::test]
    async fn long_messages_are_refused() {
        let mut bytes = Vec::new();
        send(&mut bytes, &TransferAck { blocks: 3 }).await.unwrap();
        assert_eq!(receive::<TransferAck>(&mut bytes.as_slice()).await.unwrap().blocks, 3);
        let error = receive::<TransferAck>(&mut [0xff; 8].as_slice()).await.unwrap_err().to_string();
        assert!(error.contains("more than 4096"), "{error}");
    }
}
