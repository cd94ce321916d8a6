//! A message of an engine, as it comes over ZMTP.

/// The topic, the number and the events.
pub(super) struct Message {
    pub(super) topic: Vec<u8>,
    pub(super) sequence: u64,
    pub(super) payload: Vec<u8>,
}

impl Message {
    /// Reads a message from its three frames. Returns `None` if the frames have another form.
    pub(super) fn new(frames: Vec<Vec<u8>>) -> Option<Self> {
        let [topic, sequence, payload] = <[_; 3]>::try_from(frames).ok()?;
        let sequence = u64::from_be_bytes(sequence.try_into().ok()?);
        Some(Self { topic, sequence, payload })
    }

    /// Splits the topic `kv@<endpoint>@<model>`. A missing part is empty.
    pub(super) fn names(&self) -> (&str, &str) {
        let mut parts = std::str::from_utf8(&self.topic).unwrap_or_default().splitn(3, '@').skip(1);
        (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }
}
