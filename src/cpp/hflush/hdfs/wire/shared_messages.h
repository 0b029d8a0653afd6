// How the things of types.h are spelled in the messages of both protocols. Internal: included by
// .cc files only. Readers follow the rules of wire.h.
#pragma once

#include <cstdint>
#include <string>

#include "hflush/crc/checksum.h"
#include "hflush/hdfs/wire/types.h"
#include "hflush/hdfs/wire/wire.h"

namespace hflush::hdfs::wire {

// Each adds a field with this number.
void add_block(Writer& to, std::uint32_t field, const ExtendedBlock& block);
void add_located_block(Writer& to, std::uint32_t field, const LocatedBlock& block);
void add_permission(Writer& to, std::uint32_t field, std::uint32_t permission);

// Each reads the message of the same name.
ExtendedBlock read_block(Reader from);
LocatedBlock read_located_block(Reader from);
LocatedBlocks read_located_blocks(Reader from);
FileStatus read_file_status(Reader from);
DirectoryListing read_directory_listing(Reader from);
ServerDefaults read_server_defaults(Reader from);
ContentSummary read_content_summary(Reader from);

// ChecksumTypeProto.
crc::Kind read_checksum_type(Reader& from);

}  // namespace hflush::hdfs::wire
