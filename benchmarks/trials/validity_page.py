def write_page(path, matrix):
    raise NotImplementedError
