//! An open file.

use bytes::Bytes;
use dewar_xrootd_proto::limits::VECTOR_ITEM_BYTES;
use dewar_xrootd_proto::options::pages::RETRY;
use dewar_xrootd_proto::page::{crc32c, page_len, unwrap_summed_pages, wire_len, wrap_pages};
use dewar_xrootd_proto::reply::{BadPages, OpenReply, ResponseType, StatText};
use dewar_xrootd_proto::request::{HandleOrPath, Open, PageRead, Read, ReadItem, Stat, Write};
use dewar_xrootd_proto::{FileHandle, Request};

use crate::connection::{Connection, join};
use crate::error::{Error, Result};
use crate::limits::{CHUNK_BYTES_MAX, PAGE_RETRIES_MAX};

/// An open file. Dropping it leaves it open on the server until the connection ends. Some servers
/// then discard bytes that were written to a file that was not closed.
pub struct File {
    connection: Connection,
    handle: FileHandle,
    stat: Option<StatText>,
    path: String,
}

/// Bytes that came in pages, all of which match their checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Start of the bytes in the file.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
    /// CRC-32C of each of the file's pages, or pieces of one, that they touch.
    pub crcs: Vec<u32>,
}

impl File {
    /// Opens the file on this server, without following redirections.
    ///
    /// # Errors
    /// As for every request, with [`Error::Redirect`] if the server names another one.
    pub async fn open(connection: &Connection, open: &Open) -> Result<Self> {
        let reply = connection.small(&Request::Open(open.clone())).await?;
        let reply = OpenReply::decode(reply)?;
        let stat = reply.stat.map(|text| StatText::parse(&text)).transpose()?;
        Ok(Self {
            connection: connection.clone(),
            handle: reply.handle,
            stat,
            path: open.path.clone(),
        })
    }

    /// The `stat` reply of the open, if it was requested.
    #[must_use]
    pub fn opened(&self) -> Option<&StatText> {
        self.stat.as_ref()
    }

    /// The connection on which the file is open.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The path by which it was opened.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The present `stat` reply of the file.
    ///
    /// # Errors
    /// As for every request.
    pub async fn stat(&self) -> Result<StatText> {
        let request = Request::Stat(Stat {
            options: 0,
            wants: 0,
            target: HandleOrPath::Handle(self.handle),
        });
        let reply = self.connection.small(&request).await?;
        let text = std::str::from_utf8(&reply)
            .map_err(|_| Error::Protocol("what stat says is no text".to_owned()))?;
        Ok(StatText::parse(text)?)
    }

    /// Bytes of the file: fewer than `len`, at most [`CHUNK_BYTES_MAX`], only at its end.
    ///
    /// # Errors
    /// As for every request.
    pub async fn read(&self, offset: u64, len: u32) -> Result<Vec<Bytes>> {
        let request = Request::Read(Read {
            handle: self.handle,
            offset: position(offset)?,
            len: bounded(len)?,
            path_id: self.connection.next_path(),
            ..Read::default()
        });
        let parts = self.connection.ask(&request, &[], len as usize).await?;
        Ok(parts
            .into_iter()
            .map(|part| part.bytes)
            .filter(|bytes| !bytes.is_empty())
            .collect())
    }

    /// The same in pages, each verified.
    ///
    /// # Errors
    /// As for every request; [`Error::Protocol`] for a page that fails its checksum.
    pub async fn read_pages(&self, offset: u64, len: u32) -> Result<Vec<Bytes>> {
        let parts = self.read_summed_pages(offset, len).await?;
        Ok(parts.into_iter().map(|pages| pages.bytes).collect())
    }

    /// The same with the checksums.
    ///
    /// # Errors
    /// As [`Self::read_pages`].
    pub async fn read_summed_pages(&self, offset: u64, len: u32) -> Result<Vec<Pages>> {
        let request = Request::Pgread(PageRead {
            handle: self.handle,
            offset: position(offset)?,
            len: bounded(len)?,
            path_id: self.connection.next_path(),
            ..PageRead::default()
        });
        let room = wire_len(offset, len as usize);
        let parts = self.connection.ask(&request, &[], room).await?;
        let mut at = offset;
        let mut out = Vec::with_capacity(parts.len());
        for part in parts {
            let pages = part
                .pages
                .ok_or_else(|| Error::Protocol("bytes in place of pages".to_owned()))?;
            if part.bytes.is_empty() {
                continue;
            }
            if pages.offset != at {
                return Err(Error::Protocol("pages from another place".to_owned()));
            }
            let (bytes, crcs) = unwrap_summed_pages(at, part.bytes)?;
            let offset = at;
            at += bytes.len() as u64;
            out.push(Pages {
                offset,
                bytes,
                crcs,
            });
        }
        Ok(out)
    }

    /// Reads several ranges, in their order, as one reply.
    ///
    /// # Errors
    /// As for every request; [`Error::Protocol`] if the reply does not match the request.
    pub async fn read_vector(&self, places: &[(u64, u32)]) -> Result<Vec<Bytes>> {
        let mut items = Vec::with_capacity(places.len());
        let mut room = 0;
        for (offset, len) in places {
            items.push(ReadItem {
                handle: self.handle,
                offset: position(*offset)?,
                len: bounded(*len)?,
            });
            room += *len as usize + VECTOR_ITEM_BYTES;
        }
        let request = Request::Readv { path_id: 0, items };
        let mut reply = join(self.connection.ask(&request, &[], room).await?);
        let mut out = Vec::with_capacity(places.len());
        for (offset, len) in places {
            let bad = || Error::Protocol("a vector that was not asked for".to_owned());
            if reply.len() < VECTOR_ITEM_BYTES + *len as usize {
                return Err(bad());
            }
            let head = reply.split_to(VECTOR_ITEM_BYTES);
            let head = ReadItem::decode(head[..].try_into().map_err(|_| bad())?)?;
            if (head.offset, head.len) != (position(*offset)?, *len) {
                return Err(bad());
            }
            out.push(reply.split_to(*len as usize));
        }
        Ok(out)
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// As for every request.
    pub async fn write(&self, offset: u64, data: Bytes) -> Result<()> {
        let request = Request::Write(self.writes(offset, data.len())?);
        self.connection.ask(&request, &[data], 0).await.map(drop)
    }

    /// Writes bytes in pages; pages that arrived damaged are sent again.
    ///
    /// # Errors
    /// As for every request; [`Error::Data`] if a page arrives damaged each time.
    pub async fn write_pages(&self, offset: u64, data: Bytes) -> Result<()> {
        let mut todo = vec![(offset, data.clone())];
        for attempt in 0..=PAGE_RETRIES_MAX {
            let mut bad = Vec::new();
            for (at, bytes) in todo {
                let wire = wrap_pages(at, std::slice::from_ref(&bytes), |_, page| crc32c(page));
                let write = Write {
                    flags: if attempt > 0 { RETRY } else { 0 },
                    ..self.writes(at, wire_len(at, bytes.len()))?
                };
                // The list of damaged pages: 8 bytes, and 8 for each of them.
                let room = 8 + 8 * (bytes.len() / 4096 + 2);
                let parts = self
                    .connection
                    .ask(&Request::Pgwrite(write), &wire, room)
                    .await?;
                for part in parts {
                    if part
                        .pages
                        .is_none_or(|pages| pages.progress != ResponseType::Final)
                    {
                        return Err(Error::Protocol("an answer to no pages".to_owned()));
                    }
                    if !part.bytes.is_empty() {
                        bad.extend(BadPages::decode(part.bytes)?.pages);
                    }
                }
            }
            if bad.is_empty() {
                return Ok(());
            }
            todo = Vec::with_capacity(bad.len());
            for (at, _) in bad {
                let start = at
                    .checked_sub(offset)
                    .and_then(|start| usize::try_from(start).ok());
                let Some(start) = start.filter(|start| *start < data.len()) else {
                    return Err(Error::Protocol("a damaged page elsewhere".to_owned()));
                };
                let len = page_len(at, data.len() - start);
                todo.push((at, data.slice(start..start + len)));
            }
        }
        let path = &self.path;
        let message = format!("pages of {path} at {offset} came damaged again and again");
        Err(Error::Data(message))
    }

    fn writes(&self, offset: u64, len: usize) -> Result<Write> {
        let size = u32::try_from(len).unwrap_or(u32::MAX);
        if len > wire_len(offset, CHUNK_BYTES_MAX) {
            return Err(too_large(size));
        }
        Ok(Write {
            handle: self.handle,
            offset: position(offset)?,
            len: size,
            ..Write::default()
        })
    }

    /// Waits until earlier writes have arrived.
    ///
    /// # Errors
    /// As for every request.
    pub async fn sync(&self) -> Result<()> {
        let handle = self.handle;
        self.connection
            .small(&Request::Sync { handle })
            .await
            .map(drop)
    }

    /// Closes the file. When this succeeds, the server has all written bytes.
    ///
    /// # Errors
    /// As for every request.
    pub async fn close(self) -> Result<()> {
        let handle = self.handle;
        self.connection
            .small(&Request::Close { handle })
            .await
            .map(drop)
    }
}

fn position(offset: u64) -> Result<i64> {
    i64::try_from(offset).map_err(|_| Error::Data(format!("{offset} is no place in a file")))
}

fn bounded(len: u32) -> Result<u32> {
    match len as usize > CHUNK_BYTES_MAX {
        true => Err(too_large(len)),
        false => Ok(len),
    }
}

fn too_large(len: u32) -> Error {
    Error::Data(format!("{len} bytes are more than one request may have"))
}
