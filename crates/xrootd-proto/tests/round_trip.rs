//! What is written is read back the same, and garbage is refused without a panic.

use bytes::{Bytes, BytesMut};
use dewar_xrootd_proto::reply::{
    AttributeOutcome, AttributeReply, BadPages, LoginReply, OpenReply, PageStatus, ProtocolReply,
    ResponseType, SigningRules, StatExtension, StatFlags, StatText,
};
use dewar_xrootd_proto::request::{
    Checkpoint, CloneItem, Fattr, FattrAction, HandleOrPath, Login, Open, PageRead, Prepare,
    Protocol, Read, ReadItem, Signature, Stat, Write, WriteItem,
};
use dewar_xrootd_proto::{
    FileHandle, Handshake, HandshakeReply, Reply, Request, RequestCode, RequestHeader,
    ResponseHeader, SessionId, Status, StreamId, fuzz_xrootd_reply, fuzz_xrootd_request,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn handle() -> impl Strategy<Value = FileHandle> {
    any::<[u8; 4]>().prop_map(FileHandle)
}

fn path() -> impl Strategy<Value = String> {
    "/[a-zA-Z0-9_./ é?&=%-]{1,60}"
}

fn target() -> impl Strategy<Value = HandleOrPath> {
    prop_oneof![
        handle().prop_map(HandleOrPath::Handle),
        path().prop_map(HandleOrPath::Path)
    ]
}

fn length() -> impl Strategy<Value = u32> {
    0..=i32::MAX.unsigned_abs()
}

fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

fn write() -> impl Strategy<Value = Write> {
    (handle(), any::<i64>(), any::<u8>(), length()).prop_map(|(handle, offset, path_id, len)| {
        Write {
            handle,
            offset,
            path_id,
            flags: 0,
            len,
        }
    })
}

fn read_items() -> impl Strategy<Value = Vec<ReadItem>> {
    let item = (handle(), length(), any::<i64>());
    vec(
        item.prop_map(|(handle, len, offset)| ReadItem {
            handle,
            len,
            offset,
        }),
        0..40,
    )
}

fn fattr() -> impl Strategy<Value = Fattr> {
    let name = "[a-z.]{1,20}";
    let action = prop_oneof![
        vec(name, 1..16).prop_map(FattrAction::Delete),
        vec(name, 1..16).prop_map(FattrAction::Get),
        Just(FattrAction::List),
        vec((name, bytes(99)), 1..16).prop_map(FattrAction::Set),
    ];
    (any::<u8>(), target(), action).prop_map(|(options, target, action)| Fattr {
        options,
        target,
        action,
    })
}

fn session_requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<[u8; 4]>(), bytes(300))
            .prop_map(|(kind, credential)| Request::Auth { kind, credential }),
        (any::<u32>(), any::<u8>(), 0u8..16).prop_map(|(version, flags, expect)| {
            Request::Protocol(Protocol {
                version,
                flags,
                expect,
            })
        }),
        (any::<u32>(), "[a-z]{0,8}", any::<[u8; 3]>(), bytes(99)).prop_map(
            |(pid, user, [ability_more, ability, capability], info)| {
                Request::Login(Login {
                    pid,
                    user,
                    ability_more,
                    ability,
                    capability,
                    info,
                })
            }
        ),
        Just(Request::Ping),
        any::<[u8; 16]>().prop_map(|id| Request::Endsess {
            session: SessionId(id)
        }),
        any::<[u8; 16]>().prop_map(|id| Request::Bind {
            session: SessionId(id)
        }),
        (any::<u8>(), "[a-z ]{0,40}").prop_map(|(modifier, text)| Request::Set { modifier, text }),
        bytes(40).prop_map(|argument| Request::Gpfile { argument }),
        (any::<u16>(), any::<[u8; 3]>(), any::<u64>(), bytes(64)).prop_map(
            |(expect, [version, flags, crypto], sequence, digest)| {
                Request::Sigver(Signature {
                    expect,
                    version,
                    flags,
                    sequence,
                    crypto,
                    digest,
                })
            }
        ),
    ]
}

fn name_requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<u16>(), handle(), bytes(99)).prop_map(|(kind, handle, argument)| {
            Request::Query {
                kind,
                handle,
                argument,
            }
        }),
        (any::<u16>(), path()).prop_map(|(mode, path)| Request::Chmod { mode, path }),
        (any::<u8>(), path()).prop_map(|(options, path)| Request::Dirlist { options, path }),
        (any::<u8>(), any::<u16>(), path()).prop_map(|(options, mode, path)| Request::Mkdir {
            options,
            mode,
            path
        }),
        (path(), path()).prop_map(|(from, to)| Request::Mv { from, to }),
        path().prop_map(|path| Request::Rm { path }),
        path().prop_map(|path| Request::Rmdir { path }),
        (any::<u8>(), any::<u32>(), target()).prop_map(|(options, wants, target)| {
            Request::Stat(Stat {
                options,
                wants,
                target,
            })
        }),
        (any::<u8>(), vec(path(), 0..9))
            .prop_map(|(options, paths)| Request::Statx { options, paths }),
        (any::<u16>(), path()).prop_map(|(options, path)| Request::Locate { options, path }),
        (target(), any::<i64>()).prop_map(|(target, size)| Request::Truncate { target, size }),
        fattr().prop_map(Request::Fattr),
        (any::<[u8; 2]>(), any::<[u16; 2]>(), "[a-z/\n]{0,60}").prop_map(
            |([options, priority], [port, options_more], list)| {
                Request::Prepare(Prepare {
                    options,
                    priority,
                    port,
                    options_more,
                    list,
                })
            }
        ),
    ]
}

fn file_requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<[u16; 3]>(), handle(), path()).prop_map(
            |([mode, options, options_more], template, path)| {
                Request::Open(Open {
                    mode,
                    options,
                    options_more,
                    template,
                    path,
                })
            }
        ),
        handle().prop_map(|handle| Request::Close { handle }),
        handle().prop_map(|handle| Request::Sync { handle }),
        (handle(), any::<i64>(), length(), any::<u8>(), read_items()).prop_map(
            |(handle, offset, len, path_id, ahead)| {
                Request::Read(Read {
                    handle,
                    offset,
                    len,
                    path_id,
                    ahead,
                })
            }
        ),
        (handle(), any::<i64>(), length(), any::<[u8; 2]>()).prop_map(
            |(handle, offset, len, [path_id, flags])| {
                Request::Pgread(PageRead {
                    handle,
                    offset,
                    len,
                    path_id,
                    flags,
                })
            }
        ),
        (any::<u8>(), read_items()).prop_map(|(path_id, items)| Request::Readv { path_id, items }),
        write().prop_map(Request::Write),
        (write(), any::<u8>())
            .prop_map(|(write, flags)| Request::Pgwrite(Write { flags, ..write })),
        (any::<u8>(), read_items()).prop_map(|(options, items)| Request::Writev {
            options,
            items: items
                .into_iter()
                .map(|item| WriteItem {
                    handle: item.handle,
                    len: item.len,
                    offset: item.offset
                })
                .collect()
        }),
        (handle(), vec(any::<[u64; 3]>(), 0..9)).prop_map(|(handle, items)| Request::Clone {
            handle,
            items: items
                .into_iter()
                .map(|[source_offset, len, offset]| CloneItem {
                    source: handle,
                    source_offset,
                    len,
                    offset
                })
                .collect()
        }),
        (handle(), 0u8..5, write()).prop_map(|(handle, action, write)| {
            let mut embedded = BytesMut::new();
            Request::Write(write).encode(StreamId([3, 4]), &mut embedded);
            let header = embedded[..].try_into().expect("a header alone");
            let header = RequestHeader::decode(&header).expect("just written");
            let action = match action {
                0 => Checkpoint::Begin,
                1 => Checkpoint::Commit,
                2 => Checkpoint::Query,
                3 => Checkpoint::Rollback,
                _ => Checkpoint::Execute(header),
            };
            Request::Chkpoint { handle, action }
        }),
    ]
}

fn reread(request: &Request, stream: StreamId) -> Request {
    let mut wire = BytesMut::new();
    request.encode(stream, &mut wire);
    let mut wire = wire.freeze();
    let header = wire.split_to(RequestHeader::LEN);
    let header = RequestHeader::decode(header[..].try_into().expect("its length")).expect("sound");
    assert_eq!(header.stream, stream);
    assert_eq!(header.request(), Ok(request.code()));
    assert_eq!(header.arguments_len(), Ok(wire.len()));
    Request::decode(&header, wire).expect("sound")
}

proptest! {
    #[test]
    fn requests(
        request in prop_oneof![session_requests(), name_requests(), file_requests()],
        stream in any::<[u8; 2]>(),
    ) {
        prop_assert_eq!(reread(&request, StreamId(stream)), request);
    }

    #[test]
    fn replies(
        stream in any::<[u8; 2]>(), body in bytes(200), text in "[a-zA-Z :/.é]{0,60}",
        code in any::<u32>(), port in any::<i32>(), kind in 0usize..9,
    ) {
        let stream = StreamId(stream);
        let reply = [
            Reply::Ok(body.clone()),
            Reply::OkSoFar(body.clone()),
            Reply::Message(body.clone()),
            Reply::Later { stream, status: Status::Error, body: body.clone() },
            Reply::AuthMore(body),
            Reply::Error { code, message: text.clone() },
            Reply::Redirect { port, host: text.clone() },
            Reply::Wait { seconds: code, message: text },
            Reply::WaitResp { seconds: code },
        ][kind].clone();
        let mut wire = BytesMut::new();
        reply.encode(stream, &mut wire);
        let mut wire = wire.freeze();
        let header = wire.split_to(ResponseHeader::LEN);
        let header = ResponseHeader::decode(header[..].try_into().expect("its length"))
            .expect("sound");
        prop_assert_eq!(header.len as usize, wire.len());
        prop_assert_eq!(Reply::decode(&header, wire), Ok(reply));
    }

    #[test]
    fn heads_of_pages(offset in any::<u64>(), data_len in length(), stream in any::<[u8; 2]>(), flip in 8usize..32) {
        let stream = StreamId(stream);
        let status = PageStatus {
            request: RequestCode::Pgread,
            progress: ResponseType::Partial,
            offset,
            data_len,
        };
        let mut wire = BytesMut::new();
        Reply::Status(status).encode(stream, &mut wire);
        prop_assert_eq!(wire.len(), PageStatus::LEN);
        let header = ResponseHeader::decode(wire[..8].try_into().expect("its length")).expect("sound");
        let body = Bytes::copy_from_slice(&wire[8..]);
        prop_assert_eq!(Reply::decode(&header, body), Ok(Reply::Status(status)));
        wire[flip] ^= 1;
        prop_assert!(Reply::decode(&header, wire.freeze().slice(8..)).is_err());
    }

    #[test]
    fn bodies(
        version in any::<u32>(), flags in any::<u32>(), bind in proptest::option::of("[a-z,]{1,30}"),
        exceptions in proptest::option::of(vec(any::<(u8, u8)>(), 0..20)), session in any::<[u8; 16]>(),
        security in "(&P=[a-z,.0-9:]{1,20}){0,3}", stat in proptest::option::of("[0-9 ]{1,30}"),
        outcomes in vec(("[a-z.]{1,20}", any::<u16>(), bytes(40)), 0..16), pages in vec(any::<u64>(), 1..9),
    ) {
        let signing = exceptions.map(|exceptions| SigningRules { options: 1, level: 2, exceptions });
        let protocol = ProtocolReply { version, flags, bind, signing };
        prop_assert_eq!(ProtocolReply::decode(&protocol.encode()), Ok(protocol));
        let login = LoginReply { session: SessionId(session), security };
        prop_assert_eq!(LoginReply::decode(login.encode()), Ok(login));
        let open = OpenReply { handle: FileHandle::new(version), stat };
        prop_assert_eq!(OpenReply::decode(open.encode()), Ok(open));
        let outcomes = outcomes.into_iter().map(|(name, error, value)| AttributeOutcome { name, error, value });
        let reply = AttributeReply { outcomes: outcomes.collect() };
        prop_assert_eq!(AttributeReply::decode(reply.encode(true), true), Ok(reply.clone()));
        let listed = AttributeReply::decode_list(reply.encode_list(true), true).expect("sound");
        prop_assert_eq!(listed.outcomes.len(), reply.outcomes.len());
        let mut bad = BadPages { pages: pages.into_iter().map(|offset| (offset, 4096)).collect() };
        bad.pages[0].1 = 17;
        prop_assert_eq!(BadPages::decode(bad.encode()), Ok(bad));
    }

    #[test]
    fn stat_lines(id in 0u64..1 << 62, size in 0u64..1 << 62, flags in 0u32..1024, mtime in 0i64..1 << 40, more in any::<bool>(), mode in 0u32..0o10000) {
        let more = more.then(|| StatExtension {
            ctime: mtime, atime: mtime + 1, mode, owner: "ann".into(), group: "*".into(),
        });
        let stat = StatText { id, size, flags: StatFlags(flags), mtime, more };
        prop_assert_eq!(StatText::parse(&stat.to_string()), Ok(stat));
    }

    #[test]
    fn garbage_does_no_harm(bytes in vec(any::<u8>(), 0..400), code in 2999u16..3034, len in 0u8..90) {
        let mut framed = bytes.clone();
        if framed.len() >= 24 {
            framed[2..4].copy_from_slice(&code.to_be_bytes());
            framed[20..24].copy_from_slice(&[0, 0, 0, len]);
        }
        fuzz_xrootd_request(&framed);
        fuzz_xrootd_reply(&bytes);
    }
}

#[test]
fn the_first_bytes_are_the_ones_that_clients_send() {
    assert!(Handshake::can_begin_with(&[0, 0, 0, 0]));
    assert!(Handshake::can_begin_with(&Handshake::BYTES));
    assert!(!Handshake::can_begin_with(b"GET "));
    let reply = HandshakeReply::default();
    let wire = reply.encode();
    assert_eq!(wire[..8], [0, 0, 0, 0, 0, 0, 0, 8]);
    assert_eq!(HandshakeReply::decode(&wire), Some(reply));
}

/// Bytes that a client was seen to send: an open of xrdcp for writing.
#[test]
fn an_open_of_xrdcp_is_understood() {
    let mut wire = vec![1, 0, 0x0b, 0xc2, 0x01, 0xa4, 0x04, 0x62];
    wire.extend_from_slice(&[0; 12]);
    let path = b"/data/x?oss.asize=100000000";
    wire.extend_from_slice(&[0, 0, 0, path.len() as u8]);
    let header = RequestHeader::decode(wire[..].try_into().expect("its length")).expect("sound");
    let Ok(Request::Open(open)) = Request::decode(&header, Bytes::from_static(path)) else {
        panic!("no open");
    };
    assert!(open.writes());
    assert_eq!((open.mode, open.options), (0o644, 0x0462));
    let (path, cgi) = dewar_xrootd_proto::split_cgi(&open.path);
    assert_eq!((path, cgi.get("oss.asize")), ("/data/x", Some("100000000")));
}

#[test]
fn giant_lengths_are_refused_before_anything_is_allocated() {
    for code in RequestCode::ALL {
        let header = RequestHeader {
            stream: StreamId([0, 1]),
            code: code.number(),
            body: [0; 16],
            len: i32::MAX.unsigned_abs(),
        };
        match code {
            RequestCode::Write | RequestCode::Pgwrite => assert_eq!(header.arguments_len(), Ok(0)),
            _ => assert!(header.arguments_len().is_err(), "{}", code.name()),
        }
    }
    let mut wire = [0; RequestHeader::LEN];
    wire[20] = 0x80;
    assert!(RequestHeader::decode(&wire).is_err());
}
