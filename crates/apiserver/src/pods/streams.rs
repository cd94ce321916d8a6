//! What the streams of exec sessions share, whatever protocol carries them.

use std::{future::Future, io};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The most bytes to read from a process at once.
const CHUNK_BYTES: usize = 32 * 1024;

/// Returns the Status that tells the client how the process ended. Clients read the exit code from it.
pub(super) fn ending(ended: io::Result<i32>) -> Value {
    let failure = |reason: &str, message: String| json!({"metadata": {}, "status": "Failure", "reason": reason, "message": message});
    match ended {
        Ok(0) => json!({"metadata": {}, "status": "Success"}),
        Ok(code) => {
            let mut status = failure(
                "NonZeroExitCode",
                format!("command terminated with non-zero exit code: exit status {code}"),
            );
            status["details"] = json!({"causes": [{"reason": "ExitCode", "message": code.to_string()}]});
            status
        }
        Err(error) => failure("InternalError", error.to_string()),
    }
}

/// Reads an output to its end and sends the chunks. Stops when the client is gone.
pub(super) async fn copy_out<F: Future<Output = bool>>(
    source: Option<Box<dyn AsyncRead + Send + Unpin>>,
    mut send: impl FnMut(Vec<u8>) -> F,
) {
    let Some(mut source) = source else { return };
    let mut buffer = vec![0; CHUNK_BYTES];
    // Reading from a terminal whose process is gone returns an error.
    while let Ok(read @ 1..) = source.read(&mut buffer).await {
        if !send(buffer[..read].to_vec()).await {
            return;
        }
    }
}

/// Parses a client's terminal size: `{"Width": …, "Height": …}`.
pub(super) fn size(message: &[u8]) -> Option<(u16, u16)> {
    let value: Value = serde_json::from_slice(message).ok()?;
    let side = |name: &str| value[name].as_u64().and_then(|side| u16::try_from(side).ok());
    Some((side("Width")?, side("Height")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_holds_the_exit_code() {
        assert_eq!(ending(Ok(0))["status"], "Success");
        let failed = ending(Ok(3));
        assert_eq!(failed["details"]["causes"][0]["message"], "3");
        assert_eq!(ending(Err(io::Error::other("gone")))["message"], "gone");
    }

    #[test]
    fn a_terminal_size_is_read_or_ignored() {
        assert_eq!(size(br#"{"Width":80,"Height":24}"#), Some((80, 24)));
        assert_eq!(size(br#"{"Width":-1,"Height":24}"#), None);
        assert_eq!(size(b"x"), None);
    }
}
