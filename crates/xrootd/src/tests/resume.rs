//! Uploads whose connection breaks, and clients that go on with them.

use std::time::Duration;

use bytes::Bytes;
use dewar_store::api::{BucketRef, Emptiness};
use dewar_types::BucketName;
use dewar_xrootd_proto::options::open;
use dewar_xrootd_proto::request::Checkpoint;
use dewar_xrootd_proto::{ErrorCode, FileHandle, Reply, Request, SessionId};

use super::rig::{Rig, TestClient, run};
use super::{code_of, opened, opening, read, turn, write, write_of};
use crate::DoorConfig;
use crate::door::DoorLimits;
use crate::limits::INTERRUPTED_OF_USER_MAX;

const PATH: &str = "/first/dir/up";

/// What clients of the reference implementation ask for when somebody opens a file.
const ASKED: u16 = open::READ | open::ASYNC;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// Clients go on with this request, which nobody makes who opens a file.
async fn go_on(client: &mut TestClient, path: &str) -> Reply {
    client.ask(&opening(path, open::UPDATE)).await
}

fn handle_of(reply: &Reply) -> FileHandle {
    match reply {
        Reply::Ok(body) => FileHandle(body[..4].try_into().expect("a handle")),
        reply => panic!("{reply:?}"),
    }
}

async fn alone(rig: &Rig, sessions: usize) {
    while rig.door.sessions() > sessions {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn keeping(time: Duration) -> DoorConfig {
    DoorConfig {
        limits: DoorLimits {
            resume_time: time,
            ..DoorLimits::default()
        },
        ..DoorConfig::default()
    }
}

/// How a server sees a connection break.
#[derive(Clone, Copy, Debug)]
enum ConnectionLoss {
    /// Its end came.
    Noticed,
    /// Nothing came.
    Unnoticed,
    /// Nothing, until the client itself ended its session.
    Ended,
}

impl ConnectionLoss {
    const ALL: [(Self, u64); 3] = [
        (Self::Noticed, 21),
        (Self::Unnoticed, 22),
        (Self::Ended, 27),
    ];

    /// The connection of a client breaks; it is still there where that is not noticed.
    async fn comes(self, rig: &Rig, client: TestClient) -> Option<TestClient> {
        match self {
            Self::Noticed => {
                drop(client);
                alone(rig, 0).await;
                None
            }
            Self::Unnoticed | Self::Ended => Some(client),
        }
    }

    /// The client is there again.
    async fn over(self, rig: &Rig, broken: Option<&TestClient>) -> TestClient {
        let mut again = rig.client_of(1).await;
        if let (Self::Ended, Some(broken)) = (self, broken) {
            let session = broken.session;
            again.ask(&Request::Endsess { session }).await;
        }
        again
    }
}

#[test]
fn a_client_goes_on_whether_or_not_the_end_of_its_connection_was_noticed() {
    run(async {
        let data = bytes(700_000);
        for (cut, seed) in ConnectionLoss::ALL {
            let rig = Rig::new(seed).await;
            let mut first = rig.client_of(1).await;
            let handle = opened(&mut first, PATH, open::NEW | open::ASYNC).await;
            let acknowledged = write(&mut first, handle, 0, &data[..300_000]).await;
            assert!(matches!(acknowledged, Reply::Ok(_)));
            let also = opened(&mut first, "/first/also", open::NEW | open::ASYNC).await;
            write(&mut first, also, 0, b"also").await;
            // One of which a part came.
            let half = Bytes::copy_from_slice(&data[300_000..350_000]);
            first.send(&write_of(handle, 300_000, 100_000), half).await;
            let kept = cut.comes(&rig, first).await;
            // It is nobody else's.
            let mut other = rig.client_of(2).await;
            let refused = go_on(&mut other, PATH).await;
            assert_eq!(code_of(&refused), ErrorCode::FileLocked.number());
            let mut second = cut.over(&rig, kept.as_ref()).await;
            let refused = go_on(&mut second, "/first/dir/other").await;
            assert_eq!(code_of(&refused), ErrorCode::FileLocked.number());
            let handle = handle_of(&go_on(&mut second, PATH).await);
            if let Some(mut first) = kept {
                assert!(first.is_closed().await, "one connection writes");
            }
            // Nobody sees anything of it yet.
            let missing = other.ask(&opening(PATH, open::READ)).await;
            assert_eq!(code_of(&missing), ErrorCode::NotFound.number());
            for at in (300_000..700_000).step_by(100_000) {
                let piece = &data[at..at + 100_000];
                let done = write(&mut second, handle, at as i64, piece).await;
                assert!(matches!(done, Reply::Ok(_)), "{done:?}");
            }
            // Once more, as of what was acknowledged and the client did not hear of.
            let done = write(&mut second, handle, 200_000, &data[200_000..400_000]).await;
            assert!(matches!(done, Reply::Ok(_)), "{done:?}");
            let done = second.ask(&Request::Close { handle }).await;
            assert_eq!(done, Reply::Ok(Bytes::new()));
            let handle = opened(&mut other, PATH, ASKED).await;
            assert_eq!(read(&mut other, handle, 0, 800_000).await, data);
            let also = handle_of(&go_on(&mut second, "/first/also").await);
            let done = second.ask(&Request::Close { handle: also }).await;
            assert_eq!(done, Reply::Ok(Bytes::new()));
            let also = opened(&mut other, "/first/also", ASKED).await;
            assert_eq!(&read(&mut other, also, 0, 99).await[..], b"also");
            // It was taken once.
            let refused = go_on(&mut second, PATH).await;
            assert_eq!(code_of(&refused), ErrorCode::FileLocked.number());
        }
    });
}

#[test]
fn who_reads_on_over_another_connection_reads_the_same_version() {
    run(async {
        for (cut, seed) in ConnectionLoss::ALL {
            let rig = Rig::new(seed).await;
            let (old, new) = (bytes(300_000), vec![9; 300_000]);
            rig.put(PATH, &old).await;
            let mut first = rig.client_of(1).await;
            let handle = opened(&mut first, PATH, ASKED).await;
            assert_eq!(read(&mut first, handle, 0, 1000).await, old[..1000]);
            rig.put(PATH, &new).await;
            let kept = cut.comes(&rig, first).await;
            let mut again = cut.over(&rig, kept.as_ref()).await;
            let handle = opened(&mut again, PATH, open::READ).await;
            assert_eq!(read(&mut again, handle, 0, 400_000).await, old);
            // Once more, over a third.
            drop(again);
            let mut again = rig.client_of(1).await;
            let handle = opened(&mut again, PATH, open::READ).await;
            assert_eq!(read(&mut again, handle, 0, 400_000).await, old);
            // Who asks for the file gets what it is.
            let handle = opened(&mut again, PATH, ASKED).await;
            assert_eq!(read(&mut again, handle, 0, 400_000).await, new);
            drop(kept);
        }
    });
}

#[test]
fn who_read_to_the_end_is_not_asked_about_it_any_more() {
    run(async {
        for (cut, seed) in ConnectionLoss::ALL {
            let rig = Rig::new(seed).await;
            let mut client = rig.client_of(1).await;
            let mut kept = Vec::new();
            for version in 1..=3 {
                let now = vec![version; 1000];
                rig.put(PATH, &now).await;
                let handle = opened(&mut client, PATH, ASKED).await;
                assert_eq!(read(&mut client, handle, 0, 500).await, now[..500]);
                let broken = cut.comes(&rig, client).await;
                client = cut.over(&rig, broken.as_ref()).await;
                let handle = opened(&mut client, PATH, open::READ).await;
                assert_eq!(read(&mut client, handle, 500, 500).await, now[500..]);
                client.ask(&Request::Close { handle }).await;
                kept.push(broken);
            }
        }
    });
}

#[test]
fn who_cannot_read_on_is_told_so() {
    run(async {
        let rig = Rig::with(33, keeping(Duration::ZERO), true).await;
        let old = bytes(1000);
        rig.put(PATH, &old).await;
        let mut first = rig.client_of(1).await;
        let handle = opened(&mut first, PATH, ASKED).await;
        read(&mut first, handle, 0, 10).await;
        drop(first);
        alone(&rig, 0).await;
        // It is the same still.
        let mut again = rig.client_of(1).await;
        let handle = opened(&mut again, PATH, open::READ).await;
        assert_eq!(read(&mut again, handle, 0, 2000).await, old);
        drop(again);
        alone(&rig, 0).await;
        rig.put(PATH, &bytes(999)).await;
        let mut again = rig.client_of(1).await;
        let refused = again.ask(&opening(PATH, open::READ)).await;
        assert_eq!(code_of(&refused), ErrorCode::FileLocked.number());
        // A client that had a session before this server began had another file open.
        let mut other = rig.client_of(2).await;
        let session = SessionId::default();
        other.ask(&Request::Endsess { session }).await;
        let refused = other.ask(&opening(PATH, open::READ)).await;
        assert_eq!(code_of(&refused), ErrorCode::FileLocked.number());
        // Nobody's connection broke who had none: a process that was forked, or a client that another server sent.
        let mut forked = rig.client_of(3).await;
        let handle = opened(&mut forked, PATH, open::READ).await;
        assert_eq!(read(&mut forked, handle, 0, 2000).await, bytes(999));
        drop((other, forked));
        // Who was told so and did is not asked about what was before.
        let handle = opened(&mut again, PATH, ASKED).await;
        read(&mut again, handle, 0, 10).await;
        drop(again);
        alone(&rig, 0).await;
        let mut again = rig.client_of(1).await;
        let handle = opened(&mut again, PATH, open::READ).await;
        assert_eq!(read(&mut again, handle, 0, 2000).await, bytes(999));
        // And other software may open files in these words.
        let mut plain = rig.client().await;
        opened(&mut plain, PATH, open::READ).await;
    });
}

#[test]
fn an_upload_waits_for_so_long_and_not_when_the_server_stops() {
    run(async {
        for time in [Duration::ZERO, Duration::from_millis(200)] {
            let rig = Rig::with(23, keeping(time), true).await;
            let mut first = rig.client_of(1).await;
            let handle = opened(&mut first, PATH, open::NEW | open::ASYNC).await;
            write(&mut first, handle, 0, &bytes(1000)).await;
            drop(first);
            alone(&rig, 0).await;
            tokio::time::sleep(time * 2).await;
            let mut second = rig.client_of(1).await;
            let refused = go_on(&mut second, PATH).await;
            assert_eq!(code_of(&refused), ErrorCode::FileLocked.number());
            assert!(rig.door.interrupted.is_empty());
        }
        let rig = Rig::new(24).await;
        let mut client = rig.client_of(1).await;
        opened(&mut client, PATH, open::NEW | open::ASYNC).await;
        rig.stop();
        drop(client);
        alone(&rig, 0).await;
        assert!(rig.door.interrupted.is_empty());
    });
}

#[test]
fn a_version_that_is_known_longer_does_not_keep_an_upload() {
    run(async {
        let time = Duration::from_millis(100);
        let rig = Rig::with(35, keeping(time), true).await;
        rig.put("/first/read", b"some").await;
        let mut client = rig.client_of(1).await;
        opened(&mut client, "/first/read", ASKED).await;
        drop(client);
        alone(&rig, 0).await;
        tokio::time::sleep(time * 3).await;
        let mut client = rig.client_of(1).await;
        let handle = opened(&mut client, PATH, open::NEW | open::ASYNC).await;
        write(&mut client, handle, 0, b"some").await;
        drop(client);
        alone(&rig, 0).await;
        while !rig.door.interrupted.is_empty() {
            tokio::time::sleep(time).await;
        }
    });
}

#[test]
fn of_two_uploads_of_a_client_it_goes_on_with_the_one_it_began_last() {
    run(async {
        let rig = Rig::new(36).await;
        let mut first = rig.client_of(1).await;
        let handle = opened(&mut first, PATH, open::DELETE | open::ASYNC).await;
        write(&mut first, handle, 0, b"first").await;
        let mut second = rig.client_of(1).await;
        let handle = opened(&mut second, PATH, open::DELETE | open::ASYNC).await;
        write(&mut second, handle, 0, b"second").await;
        drop(second);
        alone(&rig, 1).await;
        let mut third = rig.client_of(1).await;
        let handle = handle_of(&go_on(&mut third, PATH).await);
        assert_eq!(&read(&mut third, handle, 0, 99).await[..], b"second");
        // Whose connection is whole after all keeps its own.
        let done = first.ask(&Request::Ping).await;
        assert_eq!(done, Reply::Ok(Bytes::new()));
    });
}

#[test]
fn an_upload_that_finds_no_room_in_the_session_is_there_still() {
    run(async {
        let mut config = keeping(Duration::from_secs(300));
        config.limits.files_max = 1;
        let rig = Rig::with(29, config, true).await;
        let mut client = rig.client_of(1).await;
        let handle = opened(&mut client, PATH, open::NEW | open::ASYNC).await;
        write(&mut client, handle, 0, b"some").await;
        drop(client);
        alone(&rig, 0).await;
        let mut client = rig.client_of(1).await;
        let other = opened(&mut client, "/first/other", open::NEW | open::ASYNC).await;
        let refused = go_on(&mut client, PATH).await;
        assert_eq!(code_of(&refused), ErrorCode::NoMemory.number());
        client.ask(&Request::Close { handle: other }).await;
        let handle = handle_of(&go_on(&mut client, PATH).await);
        assert_eq!(&read(&mut client, handle, 0, 99).await[..], b"some");
    });
}

#[test]
fn a_checkpoint_whose_turn_was_not_heard_of_is_turned_once() {
    async fn again(rig: &Rig, client: TestClient) -> (TestClient, FileHandle) {
        drop(client);
        alone(rig, 0).await;
        let mut client = rig.client_of(1).await;
        let handle = handle_of(&go_on(&mut client, PATH).await);
        (client, handle)
    }
    run(async {
        let rig = Rig::new(30).await;
        let done = Reply::Ok(Bytes::new());
        let refused = ErrorCode::InvalidRequest.number();
        let mut client = rig.client_of(1).await;
        let mut handle = opened(&mut client, PATH, open::NEW | open::ASYNC).await;
        write(&mut client, handle, 0, b"before").await;
        for (end, found) in [
            (Checkpoint::Rollback, "before"),
            (Checkpoint::Commit, "behind"),
        ] {
            assert_eq!(turn(&mut client, handle, Checkpoint::Begin).await, done);
            (client, handle) = again(&rig, client).await;
            assert_eq!(turn(&mut client, handle, Checkpoint::Begin).await, done);
            let more = turn(&mut client, handle, Checkpoint::Begin).await;
            assert_eq!(code_of(&more), refused);
            write(&mut client, handle, 0, b"behind").await;
            // It is not the last that was done.
            (client, handle) = again(&rig, client).await;
            let more = turn(&mut client, handle, Checkpoint::Begin).await;
            assert_eq!(code_of(&more), refused);
            assert_eq!(turn(&mut client, handle, end).await, done);
            (client, handle) = again(&rig, client).await;
            assert_eq!(turn(&mut client, handle, end).await, done);
            let more = turn(&mut client, handle, end).await;
            assert_eq!(code_of(&more), refused);
            assert_eq!(read(&mut client, handle, 0, 99).await, found.as_bytes());
        }
    });
}

#[test]
fn a_turn_that_comes_behind_writes_that_were_repeated_is_what_was_asked_for() {
    run(async {
        let rig = Rig::new(35).await;
        let done = Reply::Ok(Bytes::new());
        for end in [Checkpoint::Commit, Checkpoint::Rollback] {
            let path = format!("{PATH}{end:?}");
            let mut client = rig.client_of(1).await;
            let mut handle = opened(&mut client, &path, open::NEW | open::ASYNC).await;
            write(&mut client, handle, 0, b"before").await;
            assert_eq!(turn(&mut client, handle, Checkpoint::Begin).await, done);
            // Twice it hears of nothing.
            for _ in 0..2 {
                drop(client);
                alone(&rig, 0).await;
                client = rig.client_of(1).await;
                handle = handle_of(&go_on(&mut client, &path).await);
                write(&mut client, handle, 0, b"before").await;
            }
            assert_eq!(turn(&mut client, handle, Checkpoint::Begin).await, done);
            write(&mut client, handle, 0, b"behind").await;
            assert_eq!(turn(&mut client, handle, end).await, done);
            drop(client);
            alone(&rig, 0).await;
            client = rig.client_of(1).await;
            handle = handle_of(&go_on(&mut client, &path).await);
            write(&mut client, handle, 0, b"behind").await;
            let repeated = turn(&mut client, handle, end).await;
            match end {
                // The checkpoint is over, and what was repeated stands: that it was undone would be a lie.
                Checkpoint::Rollback => {
                    assert_eq!(code_of(&repeated), ErrorCode::InvalidRequest.number());
                }
                _ => assert_eq!(repeated, done),
            }
            drop(client);
            alone(&rig, 0).await;
        }
    });
}

#[test]
fn who_begins_anew_does_not_go_on_with_what_was_before() {
    run(async {
        let rig = Rig::new(28).await;
        for attempt in 1..=2 {
            let mut client = rig.client_of(1).await;
            let handle = opened(&mut client, PATH, open::DELETE | open::ASYNC).await;
            write(&mut client, handle, 0, b"some").await;
            if attempt == 2 {
                let done = client.ask(&Request::Close { handle }).await;
                assert_eq!(done, Reply::Ok(Bytes::new()));
            }
            drop(client);
            alone(&rig, 0).await;
        }
        let mut client = rig.client_of(1).await;
        let refused = go_on(&mut client, PATH).await;
        assert_eq!(code_of(&refused), ErrorCode::FileLocked.number());
        // To other software these are the words in which it changes a file that is there.
        let mut other = rig.client().await;
        let handle = handle_of(&go_on(&mut other, PATH).await);
        assert_eq!(&read(&mut other, handle, 0, 99).await[..], b"some");
    });
}

#[test]
fn nobody_goes_on_with_the_file_of_another_login_of_the_account() {
    run(async {
        for (seed, noticed) in [(29, true), (30, false)] {
            let rig = Rig::new(seed).await;
            let by = |token: &str| format!("{PATH}?authz={token}");
            let mut first = rig.client_of(1).await;
            let begun = by("alice.macaroon:1");
            let handle = opened(&mut first, &begun, open::NEW | open::ASYNC).await;
            write(&mut first, handle, 0, &bytes(1000)).await;
            let mut open = Some(first);
            if noticed {
                open = None;
                alone(&rig, 0).await;
            }
            // Each says the same of its process. Another person, and another macaroon of this one.
            for other in ["eve.macaroon:1", "alice.macaroon:2"] {
                let mut client = rig.client_of(1).await;
                let refused = go_on(&mut client, &by(other)).await;
                assert_eq!(code_of(&refused), ErrorCode::FileLocked.number(), "{other}");
            }
            if let Some(first) = &mut open {
                let done = write(first, handle, 1000, b"more").await;
                assert!(matches!(done, Reply::Ok(_)), "{done:?}");
            }
            let mut again = rig.client_of(1).await;
            handle_of(&go_on(&mut again, &begun).await);
            // Tokens of issuers are renewed while a client writes.
            let mut first = rig.client_of(2).await;
            let renewed = |token| format!("/first/renewed?authz=alice.token:{token}");
            opened(&mut first, &renewed(1), open::NEW | open::ASYNC).await;
            let mut again = rig.client_of(2).await;
            handle_of(&go_on(&mut again, &renewed(2)).await);
        }
    });
}

#[test]
fn who_may_not_write_any_more_cannot_go_on() {
    run(async {
        let rig = Rig::new(25).await;
        let mut first = rig.client_of(1).await;
        let handle = opened(&mut first, PATH, open::NEW | open::ASYNC).await;
        write(&mut first, handle, 0, &bytes(1000)).await;
        drop(first);
        alone(&rig, 0).await;
        let bucket = BucketRef::own(BucketName::new("first").expect("valid"));
        let deleted = rig
            .door
            .store
            .delete_bucket(&rig.caller, &bucket, Emptiness::Bare)
            .await;
        deleted.expect("deleted");
        let mut second = rig.client_of(1).await;
        let refused = go_on(&mut second, PATH).await;
        assert_eq!(code_of(&refused), ErrorCode::NotFound.number());
    });
}

#[test]
fn of_many_uploads_of_one_user_the_oldest_are_given_up() {
    run(async {
        let rig = Rig::new(26).await;
        let path = |number: usize| format!("/first/{number}");
        for number in 0..=INTERRUPTED_OF_USER_MAX {
            let mut client = rig.client_of(1).await;
            let handle = opened(&mut client, &path(number), open::NEW | open::ASYNC).await;
            write(&mut client, handle, 0, b"some").await;
            drop(client);
            alone(&rig, 0).await;
        }
        let mut client = rig.client_of(1).await;
        let refused = go_on(&mut client, &path(0)).await;
        assert_eq!(code_of(&refused), ErrorCode::FileLocked.number());
        for number in 1..=INTERRUPTED_OF_USER_MAX {
            handle_of(&go_on(&mut client, &path(number)).await);
        }
    });
}

#[test]
fn a_person_gives_up_its_own_uploads_before_those_of_others_of_the_account() {
    run(async {
        let rig = Rig::new(31).await;
        let path = |person: &str, number: usize| {
            format!("/first/{person}-{number}?authz={person}.token:{number}")
        };
        for (person, count) in [("alice", 1), ("eve", INTERRUPTED_OF_USER_MAX)] {
            for number in 0..count {
                let mut client = rig.client_of(1).await;
                let new = open::NEW | open::ASYNC;
                let handle = opened(&mut client, &path(person, number), new).await;
                write(&mut client, handle, 0, b"some").await;
                drop(client);
                alone(&rig, 0).await;
            }
        }
        let mut client = rig.client_of(1).await;
        let refused = go_on(&mut client, &path("eve", 0)).await;
        assert_eq!(code_of(&refused), ErrorCode::FileLocked.number());
        handle_of(&go_on(&mut client, &path("alice", 0)).await);
        handle_of(&go_on(&mut client, &path("eve", 1)).await);
    });
}
