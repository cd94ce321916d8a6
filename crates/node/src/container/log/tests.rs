use bytes::Bytes;
use futures::TryStreamExt;
use longboat_apiserver::pod_access::LogOptions;

use super::*;

fn log(rotate_at: u64) -> (tempfile::TempDir, ContainerLog) {
    let dir = tempfile::tempdir().unwrap();
    let log = ContainerLog::with_limit(dir.path().to_owned(), rotate_at);
    (dir, log)
}

async fn read(log: &ContainerLog, options: LogOptions) -> String {
    read_instance(log, 0, &options).await
}

async fn read_instance(log: &ContainerLog, instance: u32, options: &LogOptions) -> String {
    let chunks: Vec<Bytes> = open(log, instance, options).unwrap().try_collect().await.unwrap();
    String::from_utf8(chunks.concat()).unwrap()
}

#[tokio::test]
async fn lines_come_back_whole_with_tail_limit_and_times() {
    let (_dir, log) = log(MAX_FILE_BYTES);
    let writer = log.start(0).unwrap();
    let mut lines = writer.lines(Stream::Stdout);
    lines.write(b"one\ntw");
    lines.write(b"o\n\nthree");
    lines.end();
    assert_eq!(read(&log, LogOptions::default()).await, "one\ntwo\n\nthree\n");
    assert_eq!(read(&log, LogOptions { tail_lines: Some(2), ..LogOptions::default() }).await, "\nthree\n");
    assert_eq!(read(&log, LogOptions { tail_lines: Some(0), ..LogOptions::default() }).await, "");
    assert_eq!(read(&log, LogOptions { limit_bytes: Some(5), ..LogOptions::default() }).await, "one\nt");
    let timed =
        read(&log, LogOptions { timestamps: true, tail_lines: Some(1), ..LogOptions::default() }).await;
    let (time, text) = timed.split_once(' ').unwrap();
    assert_eq!(text, "three\n");
    time.parse::<Timestamp>().unwrap();
    let future = Timestamp::now() + jiff::SignedDuration::from_secs(60);
    assert_eq!(read(&log, LogOptions { since_time: Some(future), ..LogOptions::default() }).await, "");
    assert_eq!(log.tail(), "one\ntwo\n\nthree\n");
}

#[tokio::test]
async fn a_long_line_is_stored_in_pieces_and_read_as_one() {
    let (_dir, log) = log(MAX_FILE_BYTES);
    let writer = log.start(0).unwrap();
    let mut lines = writer.lines(Stream::Stderr);
    let endless = "x".repeat(3 * MAX_RECORD_BYTES + 5);
    lines.write(format!("{endless}\nend\n").as_bytes());
    assert_eq!(read(&log, LogOptions::default()).await, format!("{endless}\nend\n"));
    assert_eq!(
        read(&log, LogOptions { tail_lines: Some(2), ..LogOptions::default() }).await,
        format!("{endless}\nend\n")
    );
}

#[test]
fn a_termination_message_has_the_beginning_of_a_line_that_is_too_long() {
    let (_dir, log) = log(MAX_FILE_BYTES);
    let writer = log.start(0).unwrap();
    let mut lines = writer.lines(Stream::Stderr);
    let reason = "error: the picker will not start: ";
    for length in [MAX_MESSAGE_BYTES, 3 * MAX_RECORD_BYTES] {
        lines.write(format!("before\n{reason}{}\n", "ü".repeat(length)).as_bytes());
        let message = log.tail();
        assert!(message.starts_with(reason) && message.ends_with("ü…\n"), "{message}");
        assert!((MAX_MESSAGE_BYTES - 8..=MAX_MESSAGE_BYTES).contains(&message.len()), "{}", message.len());
        // A last line that fits stays whole, and the long one gets the rest.
        lines.write(b"hint: write `plugins`\n");
        let message = log.tail();
        assert!(message.starts_with(reason), "{message}");
        assert!(message.ends_with("ü…\nhint: write `plugins`\n"), "{message}");
        assert!(message.len() <= MAX_MESSAGE_BYTES, "{}", message.len());
    }
    for number in 0..200 {
        lines.write(format!("{number}\n").as_bytes());
    }
    let expected = (120..200).map(|number| format!("{number}\n")).collect::<Vec<_>>().concat();
    assert_eq!(log.tail(), expected);
}

#[test]
fn a_termination_message_begins_with_the_cause_that_its_end_only_points_to() {
    let (_dir, log) = log(MAX_FILE_BYTES);
    let writer = log.start(0).unwrap();
    let output = include_str!("../../../../../tests/vllm/failures/no-weights.log");
    writer.lines(Stream::Stderr).write(output.as_bytes());
    let message = log.tail();
    let cause = "RuntimeError: Cannot find any model weights with `/mnt/models`";
    assert!(message.contains(&format!("\n{cause}\n")) && message.len() <= MAX_MESSAGE_BYTES, "{message}");
    assert_eq!(termination::cause(&message).as_deref(), Some(cause), "{message}");
    let (end, _) = output.trim_end().rsplit_once('\n').unwrap();
    assert!(
        message.contains(end.rsplit_once('\n').unwrap().1),
        "the end of the log is still there: {message}"
    );
    // Where the end says it, nothing is added.
    let writer = log.start(1).unwrap();
    let output = include_str!("../../../../../tests/vllm/failures/port-in-use.log");
    writer.lines(Stream::Stderr).write(output.as_bytes());
    assert!(output.ends_with(&log.tail()[300..]), "{}", log.tail());
}

#[tokio::test]
async fn old_output_is_dropped_when_a_log_grows() {
    let (dir, log) = log(400);
    let writer = log.start(0).unwrap();
    let mut lines = writer.lines(Stream::Stdout);
    for number in 0..50 {
        lines.write(format!("line {number}\n").as_bytes());
    }
    let text = read(&log, LogOptions::default()).await;
    assert!(text.ends_with("line 48\nline 49\n") && !text.contains("line 1\n"), "{text}");
    assert_eq!(log.tail(), text, "a termination message has the lines from before the rotation, too");
    let size: u64 =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(size <= 800, "{size}");
}

#[test]
fn a_rotation_that_could_not_create_a_file_is_completed_later() {
    let (dir, log) = log(100);
    let mut lines = log.start(0).unwrap().lines(Stream::Stdout);
    lines.write(b"one\n");
    fs::rename(current(dir.path(), 0), rotated(dir.path(), 0)).unwrap();
    for _ in 0..20 {
        lines.write(b"two\n");
    }
    assert!(current(dir.path(), 0).exists());
    assert!(rotated(dir.path(), 0).metadata().unwrap().len() <= 100);
}

#[tokio::test]
async fn following_sees_new_lines_and_ends_with_the_instance() {
    let (_dir, log) = log(300);
    let writer = log.start(0).unwrap();
    let mut lines = writer.lines(Stream::Stdout);
    lines.write(b"before\n");
    let options = LogOptions { follow: true, ..LogOptions::default() };
    let stream = open(&log, 0, &options).unwrap();
    let reading = tokio::spawn(stream.try_collect::<Vec<Bytes>>());
    for number in 0..20 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        lines.write(format!("after {number}\n").as_bytes());
    }
    writer.close();
    let text = String::from_utf8(reading.await.unwrap().unwrap().concat()).unwrap();
    let expected = (0..20).map(|number| format!("after {number}\n")).collect::<Vec<_>>().concat();
    assert_eq!(text, format!("before\n{expected}"));
}

#[tokio::test]
async fn the_previous_instance_stays_readable() {
    let (_dir, log) = log(MAX_FILE_BYTES);
    for instance in 0..3 {
        let writer = log.start(instance).unwrap();
        writer.lines(Stream::Stdout).write(format!("instance {instance}\n").as_bytes());
        writer.close();
    }
    let options = LogOptions::default();
    assert_eq!(read_instance(&log, 1, &options).await, "instance 1\n");
    assert_eq!(read_instance(&log, 2, &options).await, "instance 2\n");
    assert!(open(&log, 0, &options).is_err());
}
