//! Retries the reads that an answer depends on. An API server that fails for a moment, or is shutting down, must not fail the
//! writes of users.

use std::{future::Future, time::Duration};

use longboat_watch::{is_temporary, text_of};
use tokio::time::{Instant, sleep, timeout_at};

/// Pauses between attempts, two seconds in all.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(600),
    Duration::from_secs(1),
];
/// How long all attempts may take together. An API server gives up on a webhook after ten seconds, and then gives users no
/// reason.
const READ_TIMEOUT: Duration = Duration::from_secs(8);

/// Why a read failed after all attempts.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// All attempts failed with errors that may be temporary; this is the last one.
    #[error("{} (attempts: {attempts}); try again", text_of(source))]
    Failed {
        /// Number of attempts.
        attempts: usize,
        /// The last error.
        source: kube::Error,
    },
    /// The API server refused the request; a retry would not help.
    #[error("{}", text_of(.0))]
    Refused(kube::Error),
    /// The last request had no answer in time.
    #[error("the API server has not answered for {READ_TIMEOUT:?}; try again")]
    Silence,
}

/// Reads until there is an answer, an error that a retry cannot help, or no time left.
pub(super) async fn with_retries<T, F: Future<Output = Result<T, kube::Error>>>(
    mut read: impl FnMut() -> F,
) -> Result<T, ReadError> {
    let end = Instant::now() + READ_TIMEOUT;
    let mut attempts = 0;
    loop {
        let answer = timeout_at(end, read()).await.map_err(|_| ReadError::Silence)?;
        attempts += 1;
        let source = match answer {
            Ok(found) => return Ok(found),
            Err(error) if !is_temporary(&error) => return Err(ReadError::Refused(error)),
            Err(error) => error,
        };
        match PAUSES.get(attempts - 1) {
            Some(pause) if Instant::now() + *pause < end => sleep(*pause).await,
            _ => return Err(ReadError::Failed { attempts, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn failure(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status { code, ..Status::failure("no", "No") }))
    }

    /// Returns the number of attempts and the time that they take, if the first responses have these codes and later ones
    /// succeed. The number of attempts is 0 if the read fails.
    async fn tried(codes: &[u16]) -> (Result<usize, usize>, Duration) {
        let start = Instant::now();
        let mut count = 0;
        let result = with_retries(|| {
            count += 1;
            let answer = codes.get(count - 1).map_or(Ok(count), |code| Err(failure(*code)));
            async move { answer }
        })
        .await;
        let result = result.map_err(|error| match error {
            ReadError::Failed { attempts, .. } => attempts,
            ReadError::Refused(_) | ReadError::Silence => 0,
        });
        (result, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_again_for_two_seconds() {
        let ms = Duration::from_millis;
        assert_eq!(tried(&[]).await, (Ok(1), ms(0)));
        assert_eq!(tried(&[500, 429]).await, (Ok(3), ms(400)));
        assert_eq!(tried(&[503; 4]).await, (Ok(5), ms(2000)));
        assert_eq!(tried(&[503; 9]).await, (Err(5), ms(2000)));
        assert_eq!(tried(&[403]).await, (Err(0), ms(0)));
        assert_eq!(tried(&[500, 401]).await, (Err(0), ms(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_waited_out_for_less_than_the_caller_waits() {
        let start = Instant::now();
        let nothing = with_retries(std::future::pending::<Result<(), kube::Error>>).await;
        assert!(matches!(nothing, Err(ReadError::Silence)), "{nothing:?}");
        assert_eq!(start.elapsed(), READ_TIMEOUT);
        // A slow answer leaves no time for another pause.
        let late = with_retries(|| async {
            sleep(Duration::from_millis(7950)).await;
            Err::<(), _>(failure(500))
        });
        assert!(matches!(late.await, Err(ReadError::Failed { attempts: 1, .. })));
    }
}
