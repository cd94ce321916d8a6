//! What Ctrl-C means: at first the end of everything, and during a chat the end of an answer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
};
use tokio_util::sync::CancellationToken;

/// The exit code of a process that a second signal ends at once: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// The signals of a chat.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    is_chatting: AtomicBool,
    pressed: Notify,
}

// === impl Interrupts ===

impl Interrupts {
    /// Starts to listen. The token is cancelled by SIGTERM, and by Ctrl-C before the chat. Another signal then ends the process
    /// at once.
    pub(crate) fn listen() -> std::io::Result<(Arc<Self>, CancellationToken)> {
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let (interrupts, shutdown) = (Arc::new(Self::default()), CancellationToken::new());
        let (listening, asked) = (interrupts.clone(), shutdown.clone());
        tokio::spawn(async move {
            loop {
                let is_interrupt = tokio::select! {
                    _ = interrupt.recv() => true,
                    _ = terminate.recv() => false,
                };
                if asked.is_cancelled() {
                    std::process::exit(INTERRUPTED);
                }
                // Relaxed: no other data depends on the flag. Not `notify_one`: if nobody waits now, its permit would stop the next answer.
                if is_interrupt && listening.is_chatting.load(Relaxed) {
                    listening.pressed.notify_waiters();
                } else {
                    asked.cancel();
                }
            }
        });
        Ok((interrupts, shutdown))
    }

    /// From now on, Ctrl-C belongs to the chat until `false` is set.
    pub(crate) fn set_chatting(&self, is_chatting: bool) {
        self.is_chatting.store(is_chatting, Relaxed);
    }

    /// Waits until Ctrl-C is pressed during the chat.
    pub(crate) async fn interrupted(&self) {
        self.pressed.notified().await;
    }
}
