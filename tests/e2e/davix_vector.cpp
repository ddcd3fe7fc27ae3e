// Reads pieces of a file in one vector read of davix, as ROOT does through its plugin.
//
// davix_vector URL AUTHORITIES TOKEN < "OFFSET LENGTH" a line > the pieces, one after the other
#include <cstdio>
#include <iostream>
#include <vector>

#include <davix.hpp>

int main(int count, char **words) {
    if (count != 4) {
        std::cerr << "davix_vector URL AUTHORITIES TOKEN\n";
        return 2;
    }
    std::vector<Davix::DavIOVecInput> wanted;
    std::vector<Davix::DavIOVecOuput> got;
    long long offset, length;
    while (std::cin >> offset >> length) {
        wanted.emplace_back();
        wanted.back().diov_offset = offset;
        wanted.back().diov_size = length;
    }
    std::vector<std::vector<char>> pieces;
    for (auto &one : wanted) {
        pieces.emplace_back(one.diov_size);
        one.diov_buffer = pieces.back().data();
    }
    got.resize(wanted.size());

    Davix::Context context;
    Davix::RequestParams params;
    params.addCertificateAuthorityPath(words[2]);
    params.addHeader("Authorization", std::string("Bearer ") + words[3]);
    Davix::DavFile file(context, params, Davix::Uri(words[1]));
    Davix::DavixError *error = nullptr;
    if (file.readPartialBufferVec(&params, wanted.data(), got.data(), wanted.size(), &error) < 0) {
        std::cerr << error->getErrMsg() << "\n";
        return 1;
    }
    for (size_t at = 0; at < got.size(); ++at) {
        fwrite(got[at].diov_buffer, 1, got[at].diov_size, stdout);
    }
    return 0;
}
